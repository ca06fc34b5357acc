package bucket

import (
	"bytes"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

var (
	// ErrChanged matches the error of a conditional write of an object that another writer has created, changed or removed.
	ErrChanged = errors.New("changed by another writer")

	// ErrNoConditions matches the error of a conditional write to a store that has none. Not all such stores return
	// an error: some ignore conditions.
	ErrNoConditions = errors.New("the store does not support conditional writes")

	// ErrFull matches the error of a write to a store without enough space, or beyond a quota.
	ErrFull = errors.New("the store is full")

	// ErrCorrupt matches the error of a write after which the store had other contents than those that were sent.
	ErrCorrupt = errors.New("the store has other contents than those that were sent")
)

// errDamaged is the error of contents that differ from the checksum of the store.
var errDamaged = errors.New("the contents differ from the checksum of the store")

// An Error is a failed request. It names the object or the bucket.
//
// It matches [sources.ErrNotFound] if the object or the bucket doesn't exist, and [fetch.ErrUnauthorized] if the
// store refused the credentials, or requires some.
type Error struct {
	Subject string // s3://BUCKET/KEY, or s3://BUCKET
	Status  int    // of the answer; 0 if there was none
	Code    string // the store's name for the error, such as NoSuchKey; empty if there is none
	Said    string // the store's message, without secrets; empty if there is none
	Tries   int    // 0 if no request was sent
	Err     error  // the kind of error, such as [ErrChanged], or why there was no answer; nil for other answers

	region string        // where the bucket is, if the store returned it
	after  time.Duration // the wait that the store requested
	signed bool          // whether credentials were sent
}

func (e *Error) Error() string {
	text := e.Subject + ": " + e.reason().Error()
	if e.Tries < 2 {
		return text
	}
	return fmt.Sprintf("%s (%d tries)", text, e.Tries)
}

func (e *Error) Unwrap() error { return e.Err }

// Cause returns what is wrong with the store, which other requests to it share. It is empty if only this request may
// have failed.
func (e *Error) Cause() string {
	bucket, _, _ := strings.Cut(e.Subject[len(scheme):], "/")
	switch {
	case e.Code == "NoSuchBucket", errors.Is(e.Err, fetch.ErrUnauthorized), errors.Is(e.Err, ErrFull), e.temporary():
		return scheme + bucket + ": " + e.reason().Error()
	}
	return ""
}

// reason returns the error without its subject.
func (e *Error) reason() error {
	switch {
	case e.Code == "NoSuchBucket":
		return errors.New("the bucket does not exist")
	case e.Err != nil && !errors.Is(e.Err, fetch.ErrUnauthorized) && !errors.Is(e.Err, ErrFull):
		return e.Err
	}
	text := strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	said := strings.Trim(e.Code+": "+e.Said, ": ")
	if said != "" {
		text += " (" + said + ")"
	}
	if errors.Is(e.Err, ErrFull) {
		return fmt.Errorf("%w: %s", ErrFull, text)
	}
	return errors.New(text)
}

// refusalXML is the body of an answer with an error.
type refusalXML struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
	Region  string
}

// isError reports whether a body is an error, and not a result. Stores send white space before a late result.
func isError(body []byte) bool {
	return xml.Unmarshal(bytes.TrimSpace(body), &refusalXML{}) == nil
}

var code = regexp.MustCompile(`^[A-Za-z0-9.]{1,64}$`)

// refusal returns the error for an answer.
func (b *Bucket) refusal(c call, resp *http.Response, body []byte, keys Keys) error {
	var said refusalXML
	_ = xml.Unmarshal(bytes.TrimSpace(body), &said) // other answers have no message
	if !code.MatchString(said.Code) {
		said.Code = ""
	}
	e := &Error{
		Subject: b.subject(c.key), Status: resp.StatusCode, Code: said.Code, Said: oneLine(said.Message, keys),
		after: retryAfter(resp.Header), signed: keys.ID != "",
		region: strings.TrimSpace(first(resp.Header.Get("X-Amz-Bucket-Region"), said.Region)),
	}
	if !validRegion(e.region) {
		e.region = ""
	}
	if e.Status == http.StatusNotFound && e.Code == "" {
		e.Code = "NoSuchKey"
		if c.key == "" {
			e.Code = "NoSuchBucket"
		}
	}
	if e.Code == "NoSuchBucket" {
		e.Subject = b.subject("")
	}
	e.Err = kind(e, c)
	return e
}

// fullCodes are those of stores without space, and of quotas.
var fullCodes = []string{"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "XMinioStorageQuotaExceeded", "InsufficientCapacity", "ServiceQuotaExceeded"}

// kind returns the error that an answer matches, or nil.
func kind(e *Error, c call) error {
	switch {
	case e.Status == http.StatusInsufficientStorage, slices.Contains(fullCodes, e.Code):
		return ErrFull
	case e.Status == http.StatusPreconditionFailed, e.Code == "ConditionalRequestConflict":
		return ErrChanged
	case c.conditional && e.Status == http.StatusNotImplemented:
		return ErrNoConditions
	case c.conditional && e.Code == "NoSuchKey": // If-Match
		return ErrChanged
	case slices.Contains([]string{"NoSuchBucket", "NoSuchKey", "NoSuchUpload"}, e.Code):
		return sources.ErrNotFound
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Code == "InvalidAccessKeyId", e.Code == "RequestTimeTooSkewed", e.expired():
		return fetch.ErrUnauthorized
	}
	return nil
}

// oneLine returns a message from a store on one line, shortened, and without the credentials.
func oneLine(text string, keys Keys) string {
	for _, secret := range []string{keys.ID, keys.Secret, keys.Token} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = strings.TrimSuffix(strings.Join(strings.Fields(fetch.Printable(text)), " "), ".")
	if runes := []rune(text); len(runes) > maxSaid {
		text = string(runes[:maxSaid]) + "…"
	}
	return text
}

// temporaryCodes are those that other statuses than 5xx may have.
var temporaryCodes = []string{"SlowDown", "RequestTimeout", "OperationAborted", "InternalError", "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody"}

// temporary reports whether the same request may succeed later. An answer about a wrong checksum may be due to a
// bad connection.
func (e *Error) temporary() bool {
	switch {
	case e.Status == 0:
		return fetch.Temporary(e.Err) || errors.Is(e.Err, errDamaged)
	case errors.Is(e.Err, ErrFull), e.Status == http.StatusNotImplemented:
		return false
	case e.Status == http.StatusRequestTimeout, e.Status == http.StatusTooEarly, e.Status == http.StatusTooManyRequests, e.Status >= 500:
		return true
	}
	return slices.Contains(temporaryCodes, e.Code)
}

// expired reports whether the credentials have expired.
func (e *Error) expired() bool {
	return slices.Contains([]string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}, e.Code)
}

// withHint adds to err what the user can do about e.
func (b *Bucket) withHint(err error, e *Error, c call) error {
	_, authority := errors.AsType[x509.UnknownAuthorityError](e.Err)
	switch {
	case authority:
		return sources.WithHint(err, "name the file with the authority that issued the certificate of %s in AWS_CA_BUNDLE", b.host())
	case e.Code == "NoSuchBucket" && b.endpoint == nil:
		return sources.WithHint(err, "create the bucket, or name the store that has it in --endpoint")
	case e.Code == "NoSuchBucket":
		return sources.WithHint(err, "create the bucket on %s, or correct its name", b.endpoint.Host)
	case e.region != "" && e.region != b.currentRegion():
		return sources.WithHint(err, "set AWS_REGION=%s, which the store returns as the region of the bucket", e.region)
	case errors.Is(e.Err, ErrNoConditions):
		return sources.WithHint(err, "use a store with conditional writes, or update it")
	case errors.Is(e.Err, ErrFull):
		return sources.WithHint(err, "remove objects, or raise the quota of the bucket")
	case errors.Is(e.Err, fetch.ErrUnauthorized):
		return sources.WithHint(err, "%s", b.unauthorized(e, c))
	case e.Status >= 300 && e.Status < 400 && b.endpoint != nil:
		return sources.WithHint(err, "name the address that the store redirects to in --endpoint")
	}
	return err
}

// unauthorized returns the hint for a request that the store refused.
func (b *Bucket) unauthorized(e *Error, c call) string {
	switch {
	case !e.signed:
		return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case e.Code == "RequestTimeTooSkewed", e.Code == "RequestExpired":
		return "set the clock of this machine: the store refuses signatures of another time"
	case e.expired():
		return "the credentials have expired: sign in again"
	case e.Code == "InvalidAccessKeyId", e.Code == "InvalidToken":
		return "the store doesn't accept the access key from " + b.chain.origin() + ": correct it, or choose another with AWS_PROFILE"
	case e.Code == "SignatureDoesNotMatch":
		return "correct the secret key from " + b.chain.origin() + ", or set AWS_REGION to the region of the store"
	}
	return fmt.Sprintf("allow %s for this object to the user of the credentials from %s", action(c), b.chain.origin())
}

// action returns the permission that a call requires, as policies name it.
func action(c call) string {
	switch {
	case c.query.Has("uploads") && c.method == http.MethodGet:
		return "s3:ListBucketMultipartUploads"
	case c.key == "" && c.method != http.MethodPost:
		return "s3:ListBucket"
	case c.query.Has("uploadId") && c.method == http.MethodGet:
		return "s3:ListMultipartUploadParts"
	case c.query.Has("uploadId") && c.method == http.MethodDelete:
		return "s3:AbortMultipartUpload"
	case c.method == http.MethodDelete, c.query.Has("delete"):
		return "s3:DeleteObject"
	case c.method == http.MethodPut, c.method == http.MethodPost:
		return "s3:PutObject"
	}
	return "s3:GetObject"
}
