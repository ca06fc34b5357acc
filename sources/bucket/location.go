package bucket

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/minio/minio-go/v7/pkg/s3utils"

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
	if len(text) < len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) {
		return Location{}, malformed("not an s3:// URL: %s", text)
	}
	bucket, prefix, _ := strings.Cut(text[len(scheme):], "/")
	switch {
	case strings.Contains(bucket, "@"):
		return Location{}, sources.WithHint(errors.New("an s3:// URL can't contain credentials"),
			"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
	case strings.ContainsAny(text, "?#"):
		before, _, _ := strings.Cut(text, "?") // the query may be a secret
		return Location{}, malformed("%s: an s3:// URL can't contain ? or #", before)
	case bucket == "":
		return Location{}, malformed("%s: no bucket", text)
	case strings.Contains(bucket, ":"):
		return Location{}, sources.WithHint(fmt.Errorf("%s: a bucket has no port", text),
			"write s3://BUCKET/PREFIX, and the address of the server in --endpoint")
	case s3utils.CheckValidBucketName(bucket) != nil:
		return Location{}, malformed("%s: %q is not the name of a bucket", text, bucket)
	}
	l := Location{bucket, strings.TrimSuffix(prefix, "/")}
	if l.Prefix == "" && prefix != "/" {
		return l, nil
	}
	if err := checkName(l.Prefix); err != nil {
		return Location{}, malformed("%s: the prefix %w", text, err)
	}
	return l, nil
}

func malformed(format string, args ...any) error {
	return sources.WithHint(fmt.Errorf(format, args...), "write it as s3://BUCKET/PREFIX")
}

// key returns the key of the object with a name.
func (l Location) key(name string) (string, error) {
	key := l.under(name)
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("object %q: the name %w", name, err)
	}
	if len(key) > maxKey {
		return "", fmt.Errorf("object %q: the key is longer than %d bytes", name, maxKey)
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

// checkName refuses names of objects that stores, proxies or file systems
// would change or misread. The error lacks its subject.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case !utf8.ValidString(name):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl), strings.Contains(name, `\`):
		return errors.New("contains a control character or a backslash")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "":
			return errors.New("contains an empty part: a slash at its start or end, or two in a row")
		case ".", "..":
			return fmt.Errorf("contains the part %q", part)
		}
	}
	return nil
}
