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

	// ErrNoConditions matches the error of a conditional write to a store that has none. Not all such stores return
	// an error: some ignore conditions.
	ErrNoConditions = errors.New("the store does not support conditional writes")
)

// An Error is a failed request. It names the object or the bucket.
//
// It matches [sources.ErrNotFound] if the object or the bucket doesn't exist, and [fetch.ErrUnauthorized] if the
// store refused the credentials, or requires some.
type Error struct {
	Subject string // s3://BUCKET/KEY, or s3://BUCKET
	Code    string // the store's name for the error, such as NoSuchKey; empty if there is none
	Err     error  // of the request, a [*fetch.Error] if it was sent

	kind error // such as ErrChanged; nil for others
}

func (e *Error) Error() string { return e.Subject + ": " + e.reason() }

// reason returns the text of the error without its subject.
func (e *Error) reason() string {
	failed, sent := errors.AsType[*fetch.Error](e.Err)
	switch {
	case e.Code == "NoSuchBucket":
		return "the bucket does not exist"
	case slices.Contains([]error{ErrChanged, ErrNoConditions, sources.ErrNotFound}, e.kind):
		return e.kind.Error()
	case sent:
		return failed.Err.Error()
	}
	return e.Err.Error()
}

// Is reports whether e is of the kind of target.
func (e *Error) Is(target error) bool { return e.kind != nil && target == e.kind }

func (e *Error) Unwrap() error { return e.Err }

// Cause returns what is wrong with the bucket, which other requests to it share. It is empty if only this request may
// have failed, or if that is what e wraps.
func (e *Error) Cause() string {
	if e.Code != "NoSuchBucket" && !slices.Contains([]error{fetch.ErrUnauthorized, ErrNoConditions}, e.kind) {
		return ""
	}
	bucket, _, _ := strings.Cut(e.Subject[len(scheme):], "/")
	return scheme + bucket + ": " + e.reason()
}

// refusalIn returns the answer of the store in an error, or nil.
func refusalIn(err error) *fetch.StatusError {
	refusal, _ := errors.AsType[*fetch.StatusError](err)
	return refusal
}

// fail returns an error of this package about the object with a key, or about the bucket.
func (b *Bucket) fail(key string, err error) *Error {
	return &Error{Subject: Location{b.at.Bucket, key}.String(), Err: err}
}

// unreadable returns the error for an answer that isn't that of a store.
func (b *Bucket) unreadable() error {
	e := b.fail("", errors.New("the answer is not that of an S3-compatible store"))
	return sources.WithHint(e, "check the endpoint: %s", b.URL("").Host)
}

// failure returns the error for one of a request about the object with a key, or about the bucket.
func (b *Bucket) failure(ctx context.Context, key string, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	e := b.fail(key, err)
	if refusal := refusalIn(err); refusal != nil {
		e.Code = b.codeOf(refusal)
		_, e.kind = b.meaning(refusal)
	}
	switch unreachable := errors.As(err, new(*fetch.UnreachableError)); {
	case e.Code == "NoSuchBucket":
		e.Subject = b.fail("", nil).Subject
	case unreachable && b.endpoint == nil:
		return sources.WithHint(e,
			"for a store other than that of AWS, name its URL with --endpoint, or in AWS_ENDPOINT_URL_S3")
	}
	return e
}

// codeOf returns the store's name for an error, or "".
func (b *Bucket) codeOf(refusal *fetch.StatusError) string {
	aboutBucket := refusal.Request.URL.Path == b.urlOf("", "").Path // stores name a missing bucket
	switch {
	case len(refusal.Codes) > 0:
		return refusal.Codes[0]
	case refusal.Code == http.StatusNotFound && !aboutBucket:
		return "NoSuchKey"
	}
	return ""
}

// meaning returns what to do about an answer, if anything is known, and the error that it matches, or nil.
func (b *Bucket) meaning(refusal *fetch.StatusError) (hint string, kind error) {
	status, code, host := refusal.Code, b.codeOf(refusal), b.URL("").Host
	conditional := refusal.Request.Header.Get("If-Match")+refusal.Request.Header.Get("If-None-Match") != ""
	switch {
	case status == http.StatusPreconditionFailed, code == "ConditionalRequestConflict", conditional && code == "NoSuchKey":
		return "", ErrChanged
	case conditional && status == http.StatusNotImplemented:
		return "use a store with conditional writes, or update it; " +
			"without them, copy the mirror with another tool, one copy at a time", ErrNoConditions
	case code == "NoSuchBucket":
		return fmt.Sprintf("create the bucket on %s, or name the store that has it in --endpoint", host), sources.ErrNotFound
	case code == "NoSuchKey":
		return "", sources.ErrNotFound
	case code == "" && status == http.StatusNotFound:
		return fmt.Sprintf("name the URL of an S3-compatible store in --endpoint or AWS_ENDPOINT_URL_S3: "+
			"%s doesn't answer like one", host), nil
	case status < 400:
		return "name the address that the store redirects to in --endpoint", nil
	case errors.Is(refusal, fetch.ErrUnauthorized):
		return b.unauthorized(refusal, code), fetch.ErrUnauthorized
	}
	return "", nil
}

// unauthorized returns the hint for a request that the store refused.
func (b *Bucket) unauthorized(refusal *fetch.StatusError, code string) string {
	origin := b.chain.origin()
	switch {
	case !refusal.Credentials:
		return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case code == "SignatureDoesNotMatch":
		return "correct the secret of the access key from " + origin + ", or set AWS_REGION to the region of the store"
	}
	return "check the access key from " + origin + ", and the permissions of its user in this bucket"
}
