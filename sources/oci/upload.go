package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// smallBlob is the size, in bytes, up to which a blob is uploaded with one request. Larger uploads continue after a break.
const smallBlob = 1 << 20

// pushBlob stores a blob in a repository, unless it is there. It isn't uploaded if the registry can take it from another
// repository in which the Mirror stored or found it. Sent is called with the number of bytes that are done.
func (m *Mirror) pushBlob(ctx context.Context, r Repository, d v1.Descriptor, data io.ReaderAt, sent func(int64)) error {
	there, err := m.hasBlob(ctx, r, d)
	if err != nil {
		return err
	}
	if !there {
		err = m.upload(ctx, r, d, data, sent)
	} else if sent != nil {
		sent(d.Size)
	}
	if err == nil {
		m.blobs.Store(blobKey{r.Registry, d.Digest}, r.Name)
	}
	return err
}

type blobKey struct {
	registry string
	digest   digest.Digest
}

func (m *Mirror) hasBlob(ctx context.Context, r Repository, d v1.Descriptor) (bool, error) {
	_, err := m.client.Do(ctx, fetch.Write{Method: http.MethodHead, URL: r.at("blobs/" + d.Digest.String())})
	if status, ok := errors.AsType[*fetch.StatusError](err); ok && status.Code == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// upload uploads a blob that the repository doesn't have.
func (m *Mirror) upload(ctx context.Context, r Repository, d v1.Descriptor, data io.ReaderAt, sent func(int64)) error {
	query := ""
	if from, ok := m.blobs.Load(blobKey{r.Registry, d.Digest}); ok && from != r.Name {
		query = "?" + url.Values{"mount": {d.Digest.String()}, "from": {from.(string)}}.Encode()
	}
	reply, err := m.client.Do(ctx, fetch.Write{Method: http.MethodPost, URL: r.at("blobs/uploads/") + query})
	if err != nil {
		return err
	}
	if reply.Status == http.StatusCreated {
		if sent != nil {
			sent(d.Size)
		}
		return nil
	}
	at, err := locationOf(reply)
	if err != nil {
		return err
	}
	last := fetch.Write{Method: http.MethodPut, Header: http.Header{"Content-Type": {"application/octet-stream"}}}
	if d.Size <= smallBlob {
		last.Body, last.Size, last.Sent = data, d.Size, sent
	} else if at, err = m.stream(ctx, r, at, d, data, sent); err != nil {
		return err
	}
	last.URL = withQuery(at, "digest", d.Digest.String())
	if _, err = m.client.Do(ctx, last); err == nil {
		return nil
	}
	if there, _ := m.hasBlob(ctx, r, d); there { // the answer to the first try was lost
		return nil
	}
	if status, ok := errors.AsType[*fetch.StatusError](err); ok && strings.Contains(strings.Join(status.Codes, " "), "DIGEST_INVALID") {
		err = sources.WithHint(err, "the archive has changed while it was read, or the connection changes it")
	}
	return err
}

// stream uploads a blob, and returns where its upload is completed. After a break it continues with the bytes that the
// registry lacks.
func (m *Mirror) stream(ctx context.Context, r Repository, at string, d v1.Descriptor, data io.ReaderAt, sent func(int64)) (string, error) {
	var offset int64
	part := func(w *fetch.Write) {
		w.URL, w.Body, w.Size = at, io.NewSectionReader(data, offset, d.Size-offset), d.Size-offset
		w.Header = http.Header{"Content-Type": {"application/octet-stream"}}
		if offset > 0 { // some registries accept no range for the only part
			w.Header.Set("Content-Range", fmt.Sprintf("%d-%d", offset, d.Size-1))
		}
	}
	write := fetch.Write{Method: http.MethodPatch, Sent: sent, Again: func(ctx context.Context, w *fetch.Write) error {
		had := offset
		at, offset = m.received(ctx, at)
		if at == "" {
			reply, err := m.client.Do(ctx, fetch.Write{Method: http.MethodPost, URL: r.at("blobs/uploads/"), Tries: 1})
			if err != nil {
				return err
			}
			if at, err = locationOf(reply); err != nil {
				return err
			}
		}
		if sent != nil {
			sent(offset - had)
		}
		part(w)
		return nil
	}}
	part(&write)
	if write.Size == 0 {
		return at, nil
	}
	reply, err := m.client.Do(ctx, write)
	if err != nil {
		return "", err
	}
	return locationOf(reply)
}

// received returns how many bytes of an upload the registry has, and where it continues. Without an answer, at is empty: the
// upload must begin again.
func (m *Mirror) received(ctx context.Context, upload string) (at string, have int64) {
	reply, err := m.client.Do(ctx, fetch.Write{Method: http.MethodGet, URL: upload, Tries: 1})
	if err != nil {
		return "", 0
	}
	if at, err = locationOf(reply); err != nil {
		at = upload
	}
	if _, end, ok := strings.Cut(reply.Header.Get("Range"), "-"); ok {
		if n, err := strconv.ParseInt(end, 10, 64); err == nil && n > 0 { // 0-0 also means none
			have = n + 1
		}
	}
	return at, have
}

// locationOf returns where an upload continues.
func locationOf(reply *fetch.Reply) (string, error) {
	u, err := fetch.Resolve(reply.URL, reply.Header.Get("Location"))
	if err == nil && reply.URL.Scheme == "https" && u.Scheme != "https" {
		err = sources.WithHint(errors.New("uploads continue at an http URL"), "if a proxy in front of the registry ends TLS, have it send X-Forwarded-Proto: https")
	}
	if err != nil {
		return "", reply.Wrap(fmt.Errorf("the registry did not return where to upload: %w", err))
	}
	return u.String(), nil
}

// withQuery adds a value to the query of a URL, which already has a state.
func withQuery(at, name, value string) string {
	separator := "?"
	if strings.Contains(at, "?") {
		separator = "&"
	}
	return at + separator + url.Values{name: {value}}.Encode()
}

// pushManifest stores a manifest or an index, under a tag unless that is empty.
func (m *Mirror) pushManifest(ctx context.Context, r Repository, kind string, data []byte, tag string) (v1.Descriptor, *fetch.Reply, error) {
	d := v1.Descriptor{MediaType: kind, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if tag == "" {
		tag = d.Digest.String()
	}
	if d.Size > maxManifest {
		return d, nil, fmt.Errorf("the manifest would have %d bytes, of at most %d", d.Size, maxManifest)
	}
	reply, err := m.client.Do(ctx, fetch.Write{
		Method: http.MethodPut, URL: r.at("manifests/" + tag),
		Header: http.Header{"Content-Type": {kind}}, Body: bytes.NewReader(data), Size: d.Size,
	})
	return d, reply, err
}
