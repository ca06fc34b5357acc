package bucket

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/sources"
)

// scheme begins the URL of a location.
const scheme = "s3://"

// maxKey is the maximum length of an object's key, in bytes, in every store.
const maxKey = 1024

// A Location is a bucket and a prefix in it, without the slashes around it. All
// objects of the location have keys that begin with the prefix and a slash.
type Location struct {
	Bucket string
	Prefix string // empty for the whole bucket
}

// String returns the location as a URL, s3://BUCKET/PREFIX.
func (l Location) String() string { return scheme + strings.TrimSuffix(l.Bucket+"/"+l.Prefix, "/") }

// ParseURL parses s3://BUCKET/PREFIX. As in other tools, the prefix is plain
// text: %20 in it is not a space. Errors don't quote user information.
func ParseURL(text string) (Location, error) {
	malformed := func(format string, args ...any) (Location, error) {
		return Location{}, sources.WithHint(fmt.Errorf(format, args...), "write it as s3://BUCKET/PREFIX")
	}
	if len(text) < len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) {
		return malformed("not an s3:// URL: %s", text)
	}
	bucket, prefix, _ := strings.Cut(text[len(scheme):], "/")
	l := Location{bucket, strings.TrimSuffix(prefix, "/")}
	switch {
	case strings.Contains(bucket, "@"):
		return Location{}, sources.WithHint(errors.New("an s3:// URL can't contain credentials"),
			"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
	case strings.ContainsAny(text, "?#"):
		before, _, _ := strings.Cut(text, "?") // the query may be a secret
		return malformed("%s: an s3:// URL can't contain ? or #", before)
	case !validBucket(bucket):
		return malformed("%s: %q is not the name of a bucket", text, bucket)
	case prefix != "" && !valid(l.Prefix):
		return malformed("%s: %q is no prefix of objects: %w", text, prefix, errName)
	}
	return l, nil
}

// validBucket reports whether a store may have a bucket with this name.
func validBucket(name string) bool {
	_, err := netip.ParseAddr(name)
	joined := strings.Contains(name, "..") || strings.Contains(name, ".-") || strings.Contains(name, "-.")
	return err != nil && !joined && bucketName().MatchString(name)
}

var bucketName = sources.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)

// ParseEndpoint parses the URL of a store, as in [Options]. Errors don't quote user information.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.Opaque != "":
		err = errors.New("the endpoint is not an https:// or http:// URL")
	case u.User != nil:
		return nil, sources.WithHint(errors.New("the endpoint can't contain credentials"),
			"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
	case u.RawQuery != "" || u.Fragment != "":
		err = errors.New("the endpoint can't contain ? or #")
	default:
		return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}, nil
	}
	return nil, sources.WithHint(err, "write it as https://HOST or https://HOST:PORT, without the bucket")
}

// key returns the key of the object with a name.
func (l Location) key(name string) (string, error) {
	key := l.under(name)
	if !valid(name) || len(key) > maxKey {
		return "", fmt.Errorf("object %q: %w", name, errName)
	}
	return key, nil
}

// under returns the name with the prefix in front.
func (l Location) under(name string) string {
	if l.Prefix == "" {
		return name
	}
	return l.Prefix + "/" + name
}

var errName = errors.New("the name is too long, or has an empty part, a part . or .., " +
	"a backslash or a control character")

// valid reports whether stores, proxies and file systems all keep the name of an object as it is.
func valid(name string) bool {
	unsafe := func(r rune) bool { return unicode.IsControl(r) || r == '\\' }
	return fs.ValidPath(name) && name != "." && !strings.ContainsFunc(name, unsafe)
}
