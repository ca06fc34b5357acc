package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// smallBlob is the size, in bytes, up to which a blob is uploaded with one request. Larger uploads continue after a break.
const smallBlob = 1 << 20

// How often an upload begins again, because the registry doesn't have it anymore, or what it has is wrong.
const maxUploads = 3

// maxRefusals is how often a registry may fail to return what it has of an upload, before the upload begins again.
const maxRefusals = 2

// pushBlob stores a blob in a repository, unless it is there. It isn't uploaded if the registry can take it from another
// repository in which the Mirror stored or found it. Sent is called with the number of bytes that are done.
func (m *Mirror) pushBlob(ctx context.Context, r Repository, d v1.Descriptor, data io.ReaderAt, sent func(int64)) error {
	if sent == nil {
		sent = func(int64) {}
	}
	there, err := m.hasBlob(ctx, r, d)
	if err != nil {
		return err
	}
	if !there {
		err = m.upload(ctx, r, d, data, sent)
	} else {
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
	if d.Size > smallBlob {
		select {
		case m.uploads <- struct{}{}:
			defer func() { <-m.uploads }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	at, err := m.mount(ctx, r, d)
	if err != nil {
		return err
	}
	if at == "" {
		sent(d.Size)
		return nil
	}
	for n := 1; ; n++ {
		u := &upload{m: m, r: r, d: d, data: data, sent: sent, at: at}
		err := u.run(ctx)
		if err == nil {
			return nil
		}
		if _, down := errors.AsType[*fetch.UnreachableError](err); !down {
			if there, _ := m.hasBlob(ctx, r, d); there { // an answer was lost
				sent(d.Size - u.done)
				return nil
			}
		}
		sent(-u.done)
		if n == maxUploads || !u.lost(err) {
			return err
		}
		if at, err = m.begin(ctx, r, ""); err != nil {
			return err
		}
	}
}

// mount returns where to upload a blob, or "" if the registry has taken it from another repository.
func (m *Mirror) mount(ctx context.Context, r Repository, d v1.Descriptor) (at string, err error) {
	from, ok := m.blobs.Load(blobKey{r.Registry, d.Digest})
	if !ok || from == r.Name {
		return m.begin(ctx, r, "")
	}
	at, err = m.begin(ctx, r, "?"+url.Values{"mount": {d.Digest.String()}, "from": {from.(string)}}.Encode())
	if status, ok := errors.AsType[*fetch.StatusError](err); ok && status.Code < 500 {
		return m.begin(ctx, r, "") // without access to the other repository, for example
	}
	return at, err
}

// begin begins an upload, and returns where it continues. That is "" if the registry has the blob already.
func (m *Mirror) begin(ctx context.Context, r Repository, query string) (at string, err error) {
	reply, err := m.send(ctx, fetch.Write{Method: http.MethodPost, URL: r.at("blobs/uploads/") + query})
	if err != nil || query != "" && reply.Status == http.StatusCreated {
		return "", err
	}
	return locationOf(reply)
}

// send sends a request that changes something. Registries don't redirect it.
func (m *Mirror) send(ctx context.Context, w fetch.Write) (*fetch.Reply, error) {
	reply, err := m.client.Do(ctx, w)
	if err != nil || reply.Status < 300 {
		return reply, advise(err)
	}
	err = fmt.Errorf("the registry redirects the request, with the status %d", reply.Status)
	if to, invalid := fetch.Resolve(reply.URL, reply.Header.Get("Location")); invalid == nil && to.Host != reply.URL.Host {
		err = sources.WithHint(err, "if the registry has moved, write %s in place of %s", to.Host, reply.URL.Host)
	}
	return nil, reply.Wrap(err)
}

// advise adds a hint to the error of a request that changes something.
func advise(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok {
		return err
	}
	said, hint := strings.ToLower(status.Said), ""
	switch {
	case slices.Contains(status.Codes, "NAME_UNKNOWN"):
		hint = "create the repository first: some registries don't create it when something is pushed"
	case status.Code == http.StatusRequestEntityTooLarge:
		hint = "the registry or a proxy in front of it limits the size of uploads: raise the limit, which is client_max_body_size in nginx"
	case status.Code == http.StatusInsufficientStorage, strings.Contains(said, "quota"), strings.Contains(said, "exceed"):
		hint = "the registry has no space left for this: remove something there, or raise the quota; the next run continues"
	case strings.Contains(said, "immutable"):
		hint = "let the registry change tags: the tag of a version changes when a platform or other evidence is added"
	}
	if hint == "" {
		return err
	}
	return sources.WithHint(err, "%s", hint)
}

// An upload is that of a blob.
type upload struct {
	m    *Mirror
	r    Repository
	d    v1.Descriptor
	data io.ReaderAt
	sent func(int64)

	at      string // where it continues
	offset  int64  // how many bytes the registry had when the current request began
	done    int64  // how many bytes were reported
	resumed bool   // whether it continued after a break
	refused int    // how often the registry has not returned what it has
}

// report reports bytes. The calls come one at a time.
func (u *upload) report(n int64) {
	u.done += n
	u.sent(n)
}

// run uploads the blob.
func (u *upload) run(ctx context.Context) error {
	last := fetch.Write{Method: http.MethodPut, URL: u.last(), Header: http.Header{"Content-Type": {"application/octet-stream"}}}
	if u.d.Size <= smallBlob {
		last.Body, last.Size, last.Sent = u.data, u.d.Size, u.report
		last.Again = func(ctx context.Context, w *fetch.Write) (err error) { // registries may keep a part of the body, or end the upload
			u.at, err = u.m.begin(ctx, u.r, "")
			w.URL = u.last()
			return err
		}
	} else if err := u.stream(ctx); err != nil {
		return err
	}
	last.URL = u.last()
	reply, err := u.m.send(ctx, last)
	if err != nil {
		if status, ok := errors.AsType[*fetch.StatusError](err); ok && slices.Contains(status.Codes, "DIGEST_INVALID") {
			err = sources.WithHint(err, "the archive has changed while it was read, or the connection changes it")
		}
		return err
	}
	return stored(reply, u.d)
}

// last returns the URL that completes the upload.
func (u *upload) last() string { return withQuery(u.at, "digest", u.d.Digest.String()) }

// lost reports whether the upload may succeed if it begins again.
func (u *upload) lost(err error) bool {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok {
		return false
	}
	has := func(code string) bool { return slices.Contains(status.Codes, code) }
	switch status.Code {
	case http.StatusNotFound:
		return !has("NAME_UNKNOWN")
	case http.StatusRequestedRangeNotSatisfiable:
		return true
	case http.StatusBadRequest:
		return has("BLOB_UPLOAD_UNKNOWN") || has("BLOB_UPLOAD_INVALID") || u.resumed && has("DIGEST_INVALID")
	}
	return false
}

// errReceived ends the requests of a stream when the registry has all bytes.
var errReceived = errors.New("the registry has all bytes")

// stream sends the blob. After a break it continues with the bytes that the registry lacks.
func (u *upload) stream(ctx context.Context) error {
	write := fetch.Write{Method: http.MethodPatch, Sent: u.report, Again: u.resume}
	u.part(&write)
	reply, err := u.m.send(ctx, write)
	if errors.Is(err, errReceived) {
		return nil
	}
	if err != nil {
		return err
	}
	if reply.Header.Get("Location") == "" { // which it must have, and then rarely changes
		return nil
	}
	u.at, err = locationOf(reply)
	return err
}

// part makes a request send what the registry lacks.
func (u *upload) part(w *fetch.Write) {
	left := u.d.Size - u.offset
	w.URL, w.Body, w.Size = u.at, io.NewSectionReader(u.data, u.offset, left), left
	w.Header = http.Header{"Content-Type": {"application/octet-stream"}}
	if u.offset > 0 { // some registries accept no range for the only part
		w.Header.Set("Content-Range", fmt.Sprintf("%d-%d", u.offset, u.d.Size-1))
	}
}

// resume continues the upload after a break, or begins it again.
func (u *upload) resume(ctx context.Context, w *fetch.Write) error {
	had := u.offset
	reply, err := u.m.client.Do(ctx, fetch.Write{Method: http.MethodGet, URL: u.at})
	switch status, answered := errors.AsType[*fetch.StatusError](err); {
	case err != nil && !answered:
		return err
	case err != nil && status.Temporary() && u.refused < maxRefusals:
		u.refused++
		return err
	case err == nil && reply.Status < 300:
		u.offset = received(reply.Header.Get("Range"))
		if at, err := locationOf(reply); err == nil {
			u.at = at
		}
	default:
		u.offset = 0
	}
	if u.offset == 0 || u.offset > u.d.Size {
		u.offset = 0
		if u.at, err = u.m.begin(ctx, u.r, ""); err != nil {
			return err
		}
	}
	u.resumed = u.offset > 0
	u.report(u.offset - had)
	if u.offset == u.d.Size {
		return errReceived
	}
	u.part(w)
	return nil
}

var validRange = regexp.MustCompile(`^(?:bytes[= ])?0-([0-9]{1,18})$`)

// received returns how many bytes of an upload the registry has, given a Range header. For a single byte, it returns 0, because
// 0-0 also means none.
func received(header string) int64 {
	match := validRange.FindStringSubmatch(strings.TrimSpace(header))
	if match == nil {
		return 0
	}
	end, _ := strconv.ParseInt(match[1], 10, 64)
	if end == 0 {
		return 0
	}
	return end + 1
}

// stored returns an error if the registry states that it has stored something other than what was sent.
func stored(reply *fetch.Reply, d v1.Descriptor) error {
	stated := digest.Digest(reply.Header.Get("Docker-Content-Digest"))
	if stated.Validate() == nil && stated.Algorithm() == d.Digest.Algorithm() && stated != d.Digest {
		return reply.Wrap(fmt.Errorf("the registry has stored %s in place of %s", stated, d.Digest))
	}
	return nil
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
	reply, err := m.send(ctx, fetch.Write{
		Method: http.MethodPut, URL: r.at("manifests/" + tag),
		Header: http.Header{"Content-Type": {kind}}, Body: bytes.NewReader(data), Size: d.Size,
	})
	if err == nil {
		err = stored(reply, d)
	}
	return d, reply, err
}
