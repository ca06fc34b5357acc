package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

var (
	// ErrChanged matches the error of a conditional write of an object that another writer has created, changed or
	// removed.
	ErrChanged = errors.New("changed by another writer")

	errNoBucket = errors.New("the bucket does not exist")
)

// An Error is a failed request. It names the object or the bucket.
//
// It matches [sources.ErrNotFound] if the object or the bucket doesn't exist, and [fetch.ErrUnauthorized] if the
// store refused the credentials, or requires some.
type Error struct {
	Subject string // s3://BUCKET/KEY, or s3://BUCKET
	Err     error  // of the request, a [*fetch.Error] if it was sent

	kind error // such as ErrChanged; nil for others
}

func (e *Error) Error() string {
	text := e.Err.Error()
	if failed, sent := errors.AsType[*fetch.Error](e.Err); sent {
		text = failed.Err.Error()
	}
	if e.kind != nil && !errors.Is(e.kind, fetch.ErrUnauthorized) {
		text = e.kind.Error()
	}
	return e.Subject + ": " + text
}

// Is reports whether e is of the kind of target.
func (e *Error) Is(target error) bool {
	return e.kind != nil && (target == e.kind || e.kind == errNoBucket && target == sources.ErrNotFound)
}

func (e *Error) Unwrap() error { return e.Err }

// Cause returns what is wrong with the bucket, which other requests to it share. It is empty if only this request may
// have failed, or if that is what e wraps.
func (e *Error) Cause() string {
	if !slices.Contains([]error{errNoBucket, fetch.ErrUnauthorized}, e.kind) {
		return ""
	}
	bucket, _, _ := strings.Cut(e.Subject[len(scheme):], "/")
	return scheme + bucket + strings.TrimPrefix(e.Error(), e.Subject)
}

// fail returns an error of this package about the object with a key, or about the bucket.
func (b *Bucket) fail(key string, err error) *Error {
	return &Error{Subject: Location{b.At.Bucket, key}.String(), Err: err}
}

// failure returns the error for one of a request about the object with a key, or about the bucket.
func (b *Bucket) failure(ctx context.Context, key string, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	e := b.fail(key, err)
	if refusal, ok := errors.AsType[*fetch.StatusError](err); ok {
		if _, e.kind = b.meaning(refusal); errors.Is(e.kind, errNoBucket) {
			e.Subject = b.fail("", nil).Subject
		}
	}
	if errors.As(err, new(*fetch.UnreachableError)) && b.endpoint == nil {
		return sources.WithHint(e,
			"for a store other than that of AWS, name its URL with --endpoint, or in AWS_ENDPOINT_URL_S3")
	}
	return e
}

// codeOf returns the store's name for an error, such as NoSuchKey, or "".
func codeOf(refusal *fetch.StatusError) string { return append(refusal.Codes, "")[0] }

// meaning returns what to do about an answer, if anything is known, and the error that it matches, or nil.
func (b *Bucket) meaning(refusal *fetch.StatusError) (hint string, kind error) {
	status, code, host := refusal.Code, codeOf(refusal), b.URL("").Host
	conditional := refusal.Request.Header.Get("If-Match")+refusal.Request.Header.Get("If-None-Match") != ""
	aboutBucket := refusal.Request.URL.Path == b.urlOf("").Path // stores name a missing bucket
	absent := code == "NoSuchKey" || code == "" && status == http.StatusNotFound && !aboutBucket
	switch {
	case status == http.StatusPreconditionFailed, code == "ConditionalRequestConflict", conditional && absent:
		return "", ErrChanged
	case conditional && status == http.StatusNotImplemented:
		return "use a store with conditional writes, or update it; " +
			"without them, copy the mirror with another tool, one copy at a time", nil
	case code == "NoSuchBucket":
		return fmt.Sprintf("create the bucket on %s, or name the store that has it in --endpoint", host), errNoBucket
	case absent:
		return "", sources.ErrNotFound
	case code == "" && status == http.StatusNotFound:
		return fmt.Sprintf("name the URL of an S3-compatible store in --endpoint or AWS_ENDPOINT_URL_S3: "+
			"%s doesn't answer like one", host), nil
	case status < 400:
		return "name the address that the store redirects to in --endpoint", nil
	case code == "AuthorizationHeaderMalformed":
		return "set AWS_REGION to the region of the store", nil
	case !errors.Is(refusal, fetch.ErrUnauthorized):
		return "", nil
	case !refusal.Credentials:
		hint = "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case code == "SignatureDoesNotMatch":
		hint = "correct the secret of the access key from " + b.chain.place +
			", or set AWS_REGION to the region of the store"
	default:
		hint = "check the access key from " + b.chain.place + ", and the permissions of its user in this bucket"
	}
	return hint, fetch.ErrUnauthorized
}
