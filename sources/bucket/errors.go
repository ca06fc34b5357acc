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

	// ErrFull matches the error of a write to a store without enough space, or beyond a quota.
	ErrFull = errors.New("the store is full")

	// ErrCorrupt matches the error of a write after which the store had other contents than those that were sent.
	ErrCorrupt = errors.New("the store has other contents than those that were sent")
)

// An Error is a failed request. It names the object or the bucket.
//
// It matches [sources.ErrNotFound] if the object or the bucket doesn't exist, and [fetch.ErrUnauthorized] if the
// store refused the credentials, or requires some.
type Error struct {
	Subject string // s3://BUCKET/KEY, or s3://BUCKET
	Code    string // the store's name for the error, such as NoSuchKey; empty if there is none
	Err     error  // of the answer, or why there was none

	kind   error // such as ErrChanged; nil for others
	tries  int   // 0 if no request failed
	shared bool  // whether other requests to the store probably fail as well
}

func (e *Error) Error() string {
	text := e.Subject + ": " + e.reason()
	if e.tries > 1 && e.kind == nil {
		text += fmt.Sprintf(" (%d tries)", e.tries)
	}
	return text
}

// reason returns the text of the error without its subject.
func (e *Error) reason() string {
	switch {
	case e.Code == "NoSuchBucket":
		return "the bucket does not exist"
	case errors.Is(e.kind, ErrFull):
		return e.kind.Error() + ": " + e.Err.Error()
	case e.kind != nil && !errors.Is(e.kind, fetch.ErrUnauthorized):
		return e.kind.Error()
	}
	return e.Err.Error()
}

// Is reports whether e is of the kind of target.
func (e *Error) Is(target error) bool { return e.kind != nil && target == e.kind }

func (e *Error) Unwrap() error { return e.Err }

// Cause returns what is wrong with the store, which other requests to it share. It is empty if only this request may
// have failed.
func (e *Error) Cause() string {
	kinds := []error{fetch.ErrUnauthorized, ErrFull, ErrNoConditions}
	if !e.shared && e.Code != "NoSuchBucket" && !slices.Contains(kinds, e.kind) {
		return ""
	}
	bucket, _, _ := strings.Cut(e.Subject[len(scheme):], "/")
	return scheme + bucket + ": " + e.reason()
}

// unanswered reports whether a store has ended the connections of all tries without an answer. It may have refused
// them: a store that refuses a request before it has received all of it may end the connection too early.
func (e *Error) unanswered() bool {
	answered := refusalIn(e) != nil || errors.Is(e, fetch.ErrTooLarge)
	return e.tries > 0 && !answered && !unreachable(e) && !errors.Is(e, fetch.ErrStalled)
}

// unreachable reports whether an error is the failure to connect to the store.
func unreachable(err error) bool { return errors.As(err, new(*fetch.UnreachableError)) }

// refusalIn returns the answer of the store in an error, or nil.
func refusalIn(err error) *fetch.StatusError {
	refusal, _ := errors.AsType[*fetch.StatusError](err)
	return refusal
}

// fail returns an error of this package about the object with a key, or about the bucket.
func (b *Bucket) fail(key string, err error) *Error {
	return &Error{Subject: Location{b.at.Bucket, key}.String(), Err: err}
}

// unreadable returns the error for an answer that minio-go can't read.
func (b *Bucket) unreadable() error {
	e := b.fail("", errors.New("the answer is not that of an S3-compatible store"))
	return sources.WithHint(e, "check the endpoint: %s", b.URL("").Host)
}

// failure returns the error for one of a request about the object with a key, or about the bucket.
func (b *Bucket) failure(ctx context.Context, key string, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	failed, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		return b.unreadable()
	}
	e := b.fail(key, failed.Err)
	e.tries, e.shared = failed.Tries, failed.Cause() != ""
	refusal := refusalIn(err)
	if refusal != nil {
		e.Code, e.kind = b.codeOf(refusal), b.kind(refusal)
	}
	switch {
	case e.Code == "NoSuchBucket":
		e.Subject = b.fail("", nil).Subject
	case unreachable(err) && b.endpoint == nil:
		return sources.WithHint(e,
			"for a store other than that of AWS, name its URL with --endpoint, or in AWS_ENDPOINT_URL_S3")
	case e.unanswered() && b.endpoint != nil && b.endpoint.Scheme == "http":
		return sources.WithHint(e, "if the store has a certificate, write its URL with https")
	}
	return e
}

// codeOf returns the store's name for an error.
func (b *Bucket) codeOf(refusal *fetch.StatusError) string {
	switch {
	case len(refusal.Codes) > 0:
		return refusal.Codes[0]
	case refusal.Code != http.StatusNotFound, b.aboutBucket(refusal.Request): // stores name a missing bucket
		return ""
	}
	return "NoSuchKey"
}

// aboutBucket reports whether a request is about the bucket, and not about an object.
func (b *Bucket) aboutBucket(req *http.Request) bool { return req.URL.Path == b.urlOf("", "").Path }

var (
	// fullCodes are those of stores without space, and of quotas.
	fullCodes = []string{
		"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "XMinioStorageQuotaExceeded",
		"InsufficientCapacity", "ServiceQuotaExceeded",
	}
	expiredCodes = []string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
	absentCodes  = []string{"NoSuchBucket", "NoSuchKey", "NoSuchUpload"}
	deniedCodes  = append([]string{"InvalidAccessKeyId", "RequestTimeTooSkewed"}, expiredCodes...)
)

// kind returns the error that an answer matches, or nil.
func (b *Bucket) kind(refusal *fetch.StatusError) error {
	status, code := refusal.Code, b.codeOf(refusal)
	conditional := refusal.Request.Header.Get("If-Match")+refusal.Request.Header.Get("If-None-Match") != ""
	switch {
	case status == http.StatusInsufficientStorage, slices.Contains(fullCodes, code):
		return ErrFull
	case status == http.StatusPreconditionFailed, code == "ConditionalRequestConflict", conditional && code == "NoSuchKey":
		return ErrChanged
	case conditional && status == http.StatusNotImplemented:
		return ErrNoConditions
	case slices.Contains(absentCodes, code):
		return sources.ErrNotFound
	case errors.Is(refusal, fetch.ErrUnauthorized), slices.Contains(deniedCodes, code):
		return fetch.ErrUnauthorized
	}
	return nil
}
