package bucket_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// These tests are about a real store.

// environment returns the credentials of a store.
func environment(s *sourcetest.S3) bucket.Environment {
	return bucket.Environment{AccessKeyID: s.AccessKeyID, SecretAccessKey: s.SecretAccessKey, NoMetadata: true}
}

// open returns a bucket in a new store.
func open(t *testing.T, url string) (*sourcetest.S3, *bucket.Bucket) {
	t.Helper()
	at := sourcetest.Must(bucket.ParseURL(url))(t)
	s := sourcetest.NewS3(t, true, at.Bucket)
	client := fetch.New(fetch.Options{Transport: s.Transport()})
	b := sourcetest.Must(bucket.Open(t.Context(), at, bucket.Options{Endpoint: s.Endpoint, Env: environment(s), Client: client}))(t)
	return s, b
}

func TestObjects(t *testing.T) {
	_, b := open(t, "s3://mirror/a/b")
	ctx := t.Context()
	_, _, err := b.Get(ctx, "absent.json", 100)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	sourcetest.Equal(t, err.Error(), "s3://mirror/a/b/absent.json: not found")

	text := []byte(`{"versions": {}}`)
	names := []string{"index.json", "registry.example.com/acme/widget/1.0.0 +beta.json", "ü/%20&=.json"}
	for _, name := range names {
		etag := sourcetest.Must(b.Put(ctx, name, text, bucket.WriteOptions{ContentType: "application/json", CacheControl: "max-age=60"}))(t)
		got, is, err := b.Get(ctx, name, 100)
		sourcetest.Check(t, err)
		sourcetest.Equal(t, string(got), string(text))
		sourcetest.Equal(t, is, etag)
	}
	_, _, err = b.Get(ctx, "index.json", 10)
	sourcetest.ErrorIs(t, err, fetch.ErrTooLarge)
	sourcetest.EqualSlices(t, list(t, b, ""), names)
	sourcetest.EqualSlices(t, list(t, b, "reg"), names[1:2])

	sourcetest.Check(t, b.Delete(ctx, append(names, "absent.json")...))
	sourcetest.Equal(t, len(list(t, b, "")), 0)
	sourcetest.Check(t, b.Delete(ctx, "absent.json"))
}

// list returns the sorted names of objects.
func list(t *testing.T, b *bucket.Bucket, prefix string) (names []string) {
	t.Helper()
	sourcetest.Check(t, b.List(t.Context(), prefix, func(info bucket.Info) error {
		sourcetest.Expect(t, time.Since(info.Modified) < time.Hour, "%s was modified %s", info.Name, info.Modified)
		names = append(names, info.Name)
		return nil
	}))
	slices.Sort(names)
	return names
}

// A listing has several pages, and a location only contains its own objects.
func TestPages(t *testing.T) {
	s, b := open(t, "s3://mirror/a")
	for i := range 1500 {
		path := filepath.Join(s.Dir, "mirror", "a", fmt.Sprint(i%7), fmt.Sprint(i))
		sourcetest.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		sourcetest.Check(t, os.WriteFile(path, nil, 0o644))
	}
	sourcetest.Check(t, os.MkdirAll(filepath.Join(s.Dir, "mirror", "ab"), 0o755))
	sourcetest.Check(t, os.WriteFile(filepath.Join(s.Dir, "mirror", "ab", "other"), nil, 0o644))
	names := list(t, b, "")
	sourcetest.Equal(t, len(names), 1500)
	sourcetest.Check(t, b.Delete(t.Context(), names...))
	sourcetest.Equal(t, len(list(t, b, "")), 0)
}

func TestConditions(t *testing.T) {
	_, b := open(t, "s3://mirror")
	ctx := t.Context()
	write := func(text string, only http.Header) (string, error) {
		return b.Put(ctx, "index.json", []byte(text), bucket.WriteOptions{Only: only})
	}
	_, err := write("1", bucket.IfETag("none"))
	sourcetest.ErrorIs(t, err, bucket.ErrChanged, "no object yet")
	first := sourcetest.Must(write("1", bucket.IfETag("")))(t)
	_, err = write("2", bucket.IfETag(""))
	sourcetest.ErrorIs(t, err, bucket.ErrChanged)
	second := sourcetest.Must(write("2", bucket.IfETag(first)))(t)
	_, err = write("3", bucket.IfETag(first))
	sourcetest.ErrorIs(t, err, bucket.ErrChanged)
	sourcetest.Equal(t, err.Error(), "s3://mirror/index.json: changed by another writer")
	sourcetest.Must(write("3", bucket.IfETag(second)))(t)
}

// random returns the same random bytes in each call.
func random(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func TestUpload(t *testing.T) {
	s, b := open(t, "s3://mirror/packages")
	for _, size := range []int{0, 1, 1 << 20, 50 << 20} {
		data := random(size)
		sum := sha256.Sum256(data)
		name := fmt.Sprintf("%d.zip", size)
		var sent int64
		opts := bucket.WriteOptions{ContentType: "application/zip", Sent: func(n int64) { sent += n }}
		sourcetest.Must(b.Upload(t.Context(), name, bytes.NewReader(data), int64(size), sum, opts))(t)
		sourcetest.Equal(t, sent, int64(size), "progress of", name)
		stored := sourcetest.ReadFile(t, filepath.Join(s.Dir, "mirror", "packages", name))
		sourcetest.Expect(t, bytes.Equal(stored, data), "%s has other contents", name)
	}
}

// A client reads the objects of a private bucket, and can't read others.
func TestClientReadsObjects(t *testing.T) {
	s := sourcetest.NewS3(t, true, "mirror", "other")
	client := fetch.New(fetch.Options{Tries: 1})
	block, _ := pem.Decode(sourcetest.ReadFile(t, s.CAFile))
	authorities := sourcetest.Must(x509.ParseCertificates(block.Bytes))(t)
	b := sourcetest.Must(bucket.Open(t.Context(), bucket.Location{Bucket: "mirror", Prefix: "ü p"}, bucket.Options{
		Endpoint: s.Endpoint, Env: environment(s), Authorities: authorities, Client: client,
	}))(t)
	sourcetest.Must(b.Put(t.Context(), "a b/+.json", []byte("text"), bucket.WriteOptions{}))(t)
	at := b.URL("a b/+.json").String()
	doc := sourcetest.Must(client.Document(t.Context(), fetch.Request{URL: at}))(t)
	sourcetest.Equal(t, string(doc.Body), "text")
	doc, err := client.Document(t.Context(), fetch.Request{URL: strings.Replace(at, "%2B", "+", 1)})
	sourcetest.Expect(t, err == nil && string(doc.Body) == "text", "got %v", err)
	_, err = client.Document(t.Context(), fetch.Request{URL: s.Endpoint + "/other/a"})
	refused, ok := errors.AsType[*fetch.StatusError](err)
	sourcetest.Expect(t, ok && errors.Is(err, fetch.ErrUnauthorized) && !refused.Credentials, "got %v", err)
}

// Errors of a real store have their meaning and hint.
func TestRefusals(t *testing.T) {
	s, _ := open(t, "s3://mirror")
	ok := environment(s)
	for _, tt := range []struct {
		name   string
		bucket string
		env    func(*bucket.Environment)
		want   error
		hint   string
	}{
		{"no bucket", "absent", func(*bucket.Environment) {}, sources.ErrNotFound, "create the bucket on"},
		{"unknown key", "mirror", func(e *bucket.Environment) { e.AccessKeyID = "AKIAOTHEROTHER" }, fetch.ErrUnauthorized, "check the access key from AWS_ACCESS_KEY_ID"},
		{"wrong secret", "mirror", func(e *bucket.Environment) { e.SecretAccessKey = "wrong-wrong-wrong" }, fetch.ErrUnauthorized, "correct the secret of the access key"},
		{"anonymous", "mirror", func(e *bucket.Environment) { e.AccessKeyID, e.SecretAccessKey = "", "" }, fetch.ErrUnauthorized, "no credentials were found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := ok
			tt.env(&env)
			b, err := bucket.Open(t.Context(), bucket.Location{Bucket: tt.bucket}, bucket.Options{Endpoint: s.Endpoint, Env: env, Client: fetch.New(fetch.Options{Transport: s.Transport()})})
			if err == nil {
				_, _, err = b.Get(t.Context(), "a", 10)
			}
			sourcetest.ErrorIs(t, err, tt.want)
			sourcetest.Require(t, err != nil, "no error")
			hints := strings.Join(sources.Hints(err), "\n")
			sourcetest.Expect(t, strings.Contains(hints, tt.hint), "hints are %q", hints)
			for _, secret := range []string{env.AccessKeyID, env.SecretAccessKey, "Signature="} {
				sourcetest.Expect(t, secret == "" || !strings.Contains(err.Error()+hints, secret), "%v contains a secret", err)
			}
			t.Log(err, "|", hints)
		})
	}
}
