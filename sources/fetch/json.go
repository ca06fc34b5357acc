package fetch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
)

// JSON decodes the first JSON value of the document into v. What follows it is
// ignored, as engines do.
func (d *Document) JSON(v any) error {
	err := json.NewDecoder(bytes.NewReader(d.Body)).Decode(v)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType):
		return fmt.Errorf("%s: unexpected JSON %s at %q", bare(d.URL), wrongType.Value, wrongType.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: incomplete JSON", bare(d.URL))
	default:
		return fmt.Errorf("%s: not JSON: %w", bare(d.URL), err)
	}
}

// CheckJSON returns an error unless the document says that it is JSON.
func (d *Document) CheckJSON() error {
	kind, _, err := mime.ParseMediaType(d.ContentType)
	if kind == "application/json" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) {
		return nil
	}
	return fmt.Errorf("%s: content type %.80q, expected application/json", bare(d.URL), d.ContentType)
}
