package publish_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// releases returns releases of the provider, each with one package.
func releases(t *testing.T, versions ...string) (all []publish.Release) {
	t.Helper()
	for _, version := range versions {
		all = append(all, released(t, provider, version, 10, "linux_amd64"))
	}
	return all
}

// bucketOf returns the bucket of a store that answers so.
func bucketOf(t *testing.T, answer http.HandlerFunc) *publish.Bucket {
	t.Helper()
	store := httptest.NewServer(answer)
	t.Cleanup(store.Close)
	b := sourcetest.Must(bucket.Open(t.Context(), bucket.Location{Bucket: "mirror"}, bucket.Options{
		Endpoint: store.URL, Env: bucket.Environment{NoMetadata: true}, Client: fetch.New(fetch.Options{}),
	}))(t)
	return publish.NewBucket(b)
}

// A store that has no conditional writes gets no object: two writers could lose each other's changes. After its first refusal, no
// further archive is sent.
func TestStoreWithoutConditions(t *testing.T) {
	var sent, stored atomic.Int64
	b := bucketOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case r.URL.Query().Has("list-type"):
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
		case r.Header.Get("If-None-Match")+r.Header.Get("If-Match") != "":
			sent.Add(1)
			w.WriteHeader(http.StatusNotImplemented)
			fmt.Fprint(w, "<Error><Code>NotImplemented</Code><Message>A header is not implemented</Message></Error>")
		case r.Method == http.MethodPut:
			stored.Add(1)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		}
	})
	_, err := publish.Push(t.Context(), b, releases(t, "1.0.0", "1.1.0", "1.2.0"), publish.Options{Jobs: 1})
	hints := sources.Hints(err)
	sourcetest.Expect(t, len(hints) == 1 && strings.HasPrefix(hints[0], "use a store with conditional writes"), "hints %q", hints)
	sourcetest.Equal(t, sent.Load(), 1)
	sourcetest.Equal(t, stored.Load(), 0)
}

// A directory with more objects than a provider has, or with long names, is refused before its list takes much memory.
func TestLargeDirectories(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("a", 900)} {
		var pages atomic.Int64
		b := bucketOf(t, func(w http.ResponseWriter, r *http.Request) {
			prefix := r.URL.Query().Get("prefix")
			if !r.URL.Query().Has("list-type") {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
				return
			}
			if prefix == "" { // when it is opened
				fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
				return
			}
			page := pages.Add(1)
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated>")
			fmt.Fprintf(w, "<NextContinuationToken>%d</NextContinuationToken>", page)
			for i := range 1000 {
				fmt.Fprintf(w, "<Contents><Key>%s1.%d.%d.json%s</Key></Contents>", prefix, page, i, name)
			}
			fmt.Fprint(w, "</ListBucketResult>")
		})
		_, err := b.Open(t.Context(), sourcetest.Address(t, provider))
		want := provider + ": too many objects"
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), want), "got %v", err)
		sourcetest.Expect(t, pages.Load() < 60 && pages.Load() > 10, "%d pages", pages.Load())
	}
}

// The documents of a provider are limited together, because a push keeps them until it is done with the provider.
func TestLargeDocuments(t *testing.T) {
	large := `{"archives":{},"notes":"` + strings.Repeat("a", 1<<20-100) + `"}`
	var versions []string
	for i := range 12 {
		versions = append(versions, fmt.Sprintf("1.%d.0", i))
	}
	b := bucketOf(t, func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("list-type") {
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2023 15:04:05 GMT")
			fmt.Fprint(w, large)
			return
		}
		fmt.Fprint(w, "<ListBucketResult>")
		for _, v := range versions {
			fmt.Fprintf(w, "<Contents><Key>%s%s.json</Key><Size>1</Size></Contents>", r.URL.Query().Get("prefix"), v)
		}
		fmt.Fprint(w, "</ListBucketResult>")
	})
	opts := publish.Options{DryRun: true, Jobs: 1}
	_, err := publish.Push(t.Context(), b, releases(t, versions...), opts)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "together more than 4194304 bytes"), "got %v", err)
	sourcetest.Must(publish.Push(t.Context(), b, releases(t, versions[:3]...), opts))(t)
}

// A page that another pusher writes in the meantime isn't overwritten by an older view: the page is made again.
func TestPageIsMadeAgain(t *testing.T) {
	stored, made := "", 0
	b := bucketOf(t, func(w http.ResponseWriter, r *http.Request) {
		etag := fmt.Sprintf("%q", stored)
		switch match := r.Header.Get("If-Match"); {
		case r.URL.Query().Has("list-type"):
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
		case r.Method == http.MethodPut && (match != "" && match != etag || match == "" && stored != ""):
			w.WriteHeader(http.StatusPreconditionFailed)
			fmt.Fprint(w, "<Error><Code>PreconditionFailed</Code></Error>")
		case r.Method == http.MethodPut:
			stored = string(sourcetest.Must(io.ReadAll(r.Body))(t))
		case stored == "":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		default:
			w.Header().Set("ETag", etag)
			fmt.Fprint(w, stored)
		}
	})
	ours := func(text []byte) bool { return string(text) != "foreign" }
	page := func() ([]byte, error) {
		if made++; made == 1 {
			stored = "theirs"
		}
		return []byte("ours"), nil
	}
	sourcetest.Check(t, b.WritePage(t.Context(), ours, page))
	sourcetest.Expect(t, stored == "ours" && made == 2, "%s, made %d times", stored, made)
	stored = "foreign"
	sourcetest.Check(t, b.WritePage(t.Context(), ours, page))
	sourcetest.Equal(t, stored, "foreign")
}
