package oci_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A pusher pushes to the registry of a world.
type pusher struct {
	*testing.T
	*oci.Mirror
	world  *sourcetest.World
	access oci.Access
}

func newPusher(t *testing.T, w *sourcetest.World, access oci.Access) *pusher {
	t.Helper()
	template := sourcetest.Must(oci.ParseTemplate(w.OCI().Template()))(t)
	client := fetch.New(fetch.Options{Transport: w.Client().Transport, Sleep: func(context.Context, time.Duration) error { return nil }})
	access.Push = true
	return &pusher{t, oci.New(client, template, access), w, access}
}

// withoutTags refuses to remove tags, as many registries do.
type withoutTags struct{ http.RoundTripper }

func (w withoutTags) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete && !strings.Contains(r.URL.Path, "sha256:") {
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	return w.RoundTripper.RoundTrip(r)
}

// In a registry that can't remove a tag alone, another tag of a version stays.
func TestRemoveSharedIndex(t *testing.T) {
	w := sourcetest.New(t)
	template := sourcetest.Must(oci.ParseTemplate(w.OCI().Template()))(t)
	over := w.Client().Transport
	m := oci.New(fetch.New(fetch.Options{Transport: withoutTags{over}, Tries: 1}), template, oci.Access{Push: true})
	p, v := sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0")
	a := added("linux_amd64", 100)
	check(t, put(t, m, p, v, oci.Change{Add: []oci.Added{a}}))
	r := sourcetest.Must(template.Repository(p))(t)
	manifest := func(method, tag string, body []byte) (int, []byte) {
		req := sourcetest.Must(http.NewRequestWithContext(t.Context(), method, "https://"+r.Registry+"/v2/"+r.Name+"/manifests/"+tag, bytes.NewReader(body)))(t)
		req.Header.Set("Accept", "application/vnd.oci.image.index.v1+json")
		req.Header.Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		resp := sourcetest.Must(over.RoundTrip(req))(t)
		defer resp.Body.Close()
		data := sourcetest.Must(io.ReadAll(resp.Body))(t)
		return resp.StatusCode, data
	}
	_, index := manifest(http.MethodGet, "1.0.0", nil)
	status, _ := manifest(http.MethodPut, "stable", index)
	sourcetest.Equal(t, status, http.StatusCreated)
	check(t, put(t, m, p, v, oci.Change{Remove: []sources.Platform{a.Platform}}))
	status, got := manifest(http.MethodGet, "stable", nil)
	sourcetest.Expect(t, status == http.StatusOK && bytes.Equal(got, index), "%d: %s", status, got)
	// The registry in memory keeps tags of what is removed. So it is after a removal that was interrupted.
	_, got = manifest(http.MethodGet, "1.0.0", nil)
	sourcetest.Expect(t, bytes.Contains(got, []byte("vnd.larder.removed")), "got %s", got)
	all, err := m.Look(t.Context(), p, v, nil)
	sourcetest.Expect(t, err == nil && len(all.Archives) == 1, "%v, %v", all, err)
}

// added returns a package with contents of its own for a platform.
func added(platform string, size int) oci.Added {
	data := make([]byte, size)
	_, _ = rand.Read(data)
	return withData(platform, data)
}

func withData(platform string, data []byte) oci.Added {
	system, arch, _ := strings.Cut(platform, "_")
	hash := sources.ZipHash(sha256.Sum256(data))
	contents.Store(hash, bytes.NewReader(data))
	return oci.Added{
		Platform: sources.Platform{OS: system, Arch: arch}, Size: int64(len(data)), Hash: hash,
		Filename: "terraform-provider-widget_1.0.0_" + platform + ".zip",
	}
}

var signed = &sources.Signed{Sums: []byte("x"), Signature: []byte("y"), Keys: []sources.Key{{Armor: "z"}}}

// contents are those of the packages, by hash.
var contents sync.Map

func (p *pusher) put(c oci.Change, sent ...func(int64)) error {
	return put(p.T, p.Mirror, sourcetest.Address(p, provider), sourcetest.Number(p, "1.0.0"), c, sent...)
}

// put uploads packages, and changes a version.
func put(t *testing.T, m *oci.Mirror, p sources.Provider, v sources.Version, c oci.Change, sent ...func(int64)) error {
	for _, a := range c.Add {
		data, _ := contents.Load(a.Hash)
		if err := m.Upload(t.Context(), p, a, data.(io.ReaderAt), append(sent, nil)[0]); err != nil {
			return fmt.Errorf("%s %s: %w", p, v, err)
		}
	}
	return m.Put(t.Context(), p, v, c)
}

// archives returns what the repository has, as PLATFORM HASH, according to a new client.
func (p *pusher) archives() (all []string) {
	p.Helper()
	r := sourcetest.Must(open(p.T, p.world, p.access).Release(p.Context(), sourcetest.Address(p, provider), sourcetest.Number(p, "1.0.0")))(p)
	for platform, a := range r.Archives {
		all = append(all, platform.String()+" "+string(a.Hashes[0]))
	}
	slices.Sort(all)
	return all
}

func texts(packages ...oci.Added) (all []string) {
	for _, a := range packages {
		all = append(all, a.Platform.String()+" "+string(a.Hash))
	}
	slices.Sort(all)
	return all
}

// What Larder pushes in place of a wrong archive is refused by the registry.
func TestPushChanged(t *testing.T) {
	p := newPusher(t, sourcetest.New(t), oci.Access{})
	err := p.Upload(t.Context(), sourcetest.Address(t, provider), added("linux_amd64", 100), bytes.NewReader(make([]byte, 100)), nil)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "400 Bad Request"), "error %v", err)
}

// unreadable is an archive that can't be read.
type unreadable struct{}

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, io.ErrNoProgress }

// An archive that can't be read is uploaded once.
func TestPushUnreadable(t *testing.T) {
	p := newPusher(t, sourcetest.New(t), oci.Access{})
	err := p.Upload(t.Context(), sourcetest.Address(t, provider), added("linux_amd64", 2<<20), unreadable{}, nil)
	sourcetest.ErrorIs(t, err, io.ErrNoProgress)
	sourcetest.Equal(t, strings.TrimSuffix(p.requests(), ", PUT blobs/ 1"), "HEAD blobs/ 1, POST blobs/ 1")
}

// Evidence stays when the platforms of a version change, but not if an archive is replaced, which it may not cover.
func TestEvidenceStays(t *testing.T) {
	linux, darwin := added("linux_amd64", 100), added("darwin_arm64", 100)
	for name, test := range map[string]struct {
		change oci.Change
		stays  bool
	}{
		"platform added":    {oci.Change{Add: []oci.Added{added("linux_arm64", 100)}}, true},
		"same platform":     {oci.Change{Add: []oci.Added{linux}}, true},
		"platform removed":  {oci.Change{Remove: []sources.Platform{linux.Platform}}, true},
		"archive replaced":  {oci.Change{Add: []oci.Added{added("linux_amd64", 100)}}, false},
		"replaced and more": {oci.Change{Add: []oci.Added{darwin, added("linux_amd64", 100)}}, false},
	} {
		for _, api := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, referrers %v", name, api), func(t *testing.T) {
				w := sourcetest.New(t)
				if !api {
					wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
						if strings.Contains(r.URL.Path, "/referrers/") {
							http.NotFound(rw, r)
							return
						}
						next.ServeHTTP(withoutSubject{rw}, r)
					})
				}
				p := newPusher(t, w, oci.Access{})
				for _, origin := range []string{"https://example.com/1", "https://example.com/2"} {
					signed := &sources.Signed{Sums: []byte("x"), Signature: bytes.Repeat([]byte("y"), 70<<10), Keys: []sources.Key{{Armor: "z"}}, Origin: origin}
					check(t, p.put(oci.Change{Add: []oci.Added{linux, darwin}, Signed: signed}))
				}
				check(t, newPusher(t, w, oci.Access{}).put(test.change))
				r := sourcetest.Must(open(t, w, oci.Access{}).Release(t.Context(), sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0")))(t)
				sourcetest.Expect(t, (r.Signed != nil) == test.stays && (r.Signed == nil || r.Signed.Origin == "https://example.com/2") && r.Warnings == nil, "got %+v", r)
			})
		}
	}
}

// withoutSubject is the answer of a registry that doesn't know subjects.
type withoutSubject struct{ http.ResponseWriter }

func (w withoutSubject) WriteHeader(status int) {
	w.Header().Del("OCI-Subject")
	w.ResponseWriter.WriteHeader(status)
}

// A version of another provider is not changed, even if the template maps both to the same repository. An index that doesn't state
// its provider may be that of any.
func TestOccupied(t *testing.T) {
	w := published(t)
	template, err := oci.ParseTemplate(w.OCI().Host + "/mirror/registry.opentofu.org/${namespace}/${type}")
	check(t, err)
	m := oci.New(fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1}), template, writer)
	ours, theirs := sourcetest.Address(t, provider), sourcetest.Address(t, "registry.terraform.io/acme/widget")
	one, two := sourcetest.Number(t, "1.0.0"), sourcetest.Number(t, "2.0.0")
	sourcetest.Must(m.Look(t.Context(), theirs, one, nil))(t)
	check(t, put(t, m, ours, one, oci.Change{Add: []oci.Added{added("linux_arm64", 100)}}))

	m = oci.New(fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1}), template, writer)
	occupied := func(err error) {
		t.Helper()
		says := fmt.Sprintf("has versions of %s, and not of %s", ours, theirs)
		sourcetest.Expect(t, err != nil && strings.HasSuffix(err.Error(), says) && len(sources.Hints(err)) == 1, "error %v", err)
	}
	for _, v := range []sources.Version{one, two} {
		_, err = m.Look(t.Context(), theirs, v, nil)
		occupied(err)
	}
	occupied(put(t, m, theirs, one, oci.Change{Add: []oci.Added{added("darwin_amd64", 100)}}))
	occupied(put(t, m, theirs, one, oci.Change{Remove: []sources.Platform{{OS: "linux", Arch: "amd64"}}}))
	r, err := m.Release(t.Context(), theirs, one)
	sourcetest.Expect(t, err == nil && len(r.Archives) == 3 && r.Provider == ours, "got %+v, %v", r, err)
	_, err = m.Look(t.Context(), ours, two, nil)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
}

var endOfPath = regexp.MustCompile(`sha256[:-].*|uploads/.*`)

// requests returns METHOD PATH COUNT of the requests that the registry has got since the last call, without digests.
func (p *pusher) requests() string {
	counts := map[string]int{}
	for _, r := range p.world.OCI().Requests() {
		_, path, _ := strings.Cut(r.Path, provider+"/")
		counts[r.Method+" "+endOfPath.ReplaceAllString(path, "")]++
	}
	p.world.OCI().Forget()
	var all []string
	for _, request := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprint(request, " ", counts[request]))
	}
	return strings.Join(all, ", ")
}

// A push sends few requests. A blob is looked for and pushed once for each repository.
func TestRequestsOfPush(t *testing.T) {
	w := sourcetest.New(t)
	id := sourcetest.Address(t, provider)
	linux, darwin, other := added("linux_amd64", 3<<20), added("darwin_arm64", 3<<20), added("linux_amd64", 100)
	push := func(want string, p *pusher, version string, signed *sources.Signed, all ...oci.Added) { // the last one
		t.Helper()
		v := sourcetest.Number(t, version)
		_, _ = p.Look(t.Context(), id, v, all)
		check(t, put(t, p.Mirror, id, v, oci.Change{Add: all[len(all)-1:], Signed: signed}))
		sourcetest.Equal(t, strings.ReplaceAll(p.requests(), version, "TAG"), want)
	}
	const look, store = "GET manifests/TAG 1, ", "PUT manifests/ 1, PUT manifests/TAG 1"
	first, second := newPusher(t, w, oci.Access{}), newPusher(t, w, oci.Access{})
	push(look+"GET tags/list 1, HEAD blobs/ 1, POST blobs/ 1, PUT blobs/ 1, "+store, first, "1.0.0", nil, linux)
	push(look+"GET referrers/ 1, HEAD blobs/ 1, POST blobs/ 1, PUT blobs/ 1, "+store, first, "1.0.0", nil, linux, darwin)
	push(look+"HEAD blobs/ 1, "+store, first, "2.0.0", nil, darwin) // which is there

	// Another process looks for blobs.
	push(look+"GET referrers/ 1, HEAD blobs/ 1, POST blobs/ 1, PUT blobs/ 1, "+store, second, "2.0.0", nil, darwin, other)
	const more = "PUT manifests/ 2, PUT manifests/TAG 1"
	push("GET manifests/2.0.0 1, "+look+"GET tags/list 1, HEAD blobs/ 5, POST blobs/ 4, PUT blobs/ 4, "+more,
		second, "3.0.0", signed, other)
	push("GET manifests/ 1, "+look+"GET referrers/ 1, HEAD blobs/ 5, "+more, second, "3.0.0", nil, other, darwin)

	// A process that doesn't know whether the registry knows referrers also stores them under a tag.
	w = sourcetest.New(t)
	push("GET manifests/ 1, "+look+"GET tags/list 1, HEAD blobs/ 5, POST blobs/ 5, PUT blobs/ 5, PUT manifests/ 3, PUT manifests/TAG 1",
		newPusher(t, w, oci.Access{}), "1.0.0", signed, linux)
}

// lease checks the text of the lease.
func (p *pusher) lease(want string) {
	p.Helper()
	got, err := p.Lease(p.Context(), sourcetest.Address(p, provider))
	sourcetest.Expect(p, err == nil && got == want, "the lease is %q, %v; want %q", got, err, want)
}

func (p *pusher) setLease(text string) error {
	return p.SetLease(p.Context(), sourcetest.Address(p, provider), text)
}

// A lease is no version, and takes few requests.
func TestLease(t *testing.T) {
	p := newPusher(t, sourcetest.New(t), oci.Access{})
	_, err := p.Look(t.Context(), sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0"), nil)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	p.requests()
	p.lease("")
	check(t, p.setLease("pid 1"))
	sourcetest.Equal(t, p.requests(),
		"GET manifests/larder-lease 1, HEAD blobs/ 1, POST blobs/ 1, PUT blobs/ 1, PUT manifests/larder-lease 1", "first lease")
	p.lease("pid 1")
	check(t, p.setLease("pid 1, again"))
	sourcetest.Equal(t, p.requests(), "GET manifests/larder-lease 1, HEAD blobs/ 1, PUT manifests/larder-lease 1", "renewed lease")

	check(t, p.put(oci.Change{Add: []oci.Added{added("linux_amd64", 10)}}))
	newPusher(t, p.world, oci.Access{}).lease("pid 1, again")
	check(t, p.setLease(""))
	p.lease("")
	l, err := p.Versions(t.Context(), sourcetest.Address(t, provider))
	sourcetest.Expect(t, err == nil && len(l.Versions) == 1, "versions %v, %v", l.Versions, err)
}

// Other referrers of an index, such as signatures of containers, don't hide its evidence.
func TestOtherReferrers(t *testing.T) {
	w := sourcetest.New(t)
	p, address := newPusher(t, w, oci.Access{}), sourcetest.Address(t, provider)
	check(t, p.put(oci.Change{Add: []oci.Added{added("linux_amd64", 100)}, Signed: signed}))
	resp := sourcetest.Must(w.Client().Get("https://" + w.OCI().Host + "/v2/mirror/" + provider + "/manifests/1.0.0"))(t)
	defer resp.Body.Close()
	index := sourcetest.Must(io.ReadAll(resp.Body))(t)
	for i := range 40 {
		w.OCI().PushManifest(provider, fmt.Sprint("other-", i), map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []any{}, "artifactType": "application/vnd.other",
			"config":      map[string]any{"mediaType": "application/vnd.oci.empty.v1+json", "digest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("{}"))), "size": 2},
			"annotations": map[string]string{"number": fmt.Sprint(i)},
			"subject": map[string]any{
				"mediaType": "application/vnd.oci.image.index.v1+json", "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(index)), "size": len(index),
			},
		})
	}
	got, err := newPusher(t, w, oci.Access{}).Look(t.Context(), address, sourcetest.Number(t, "1.0.0"), nil)
	sourcetest.Expect(t, err == nil && got.Signed != nil, "%v, %v", got, err)
}

// Where each repository has a user of its own, the token server refuses a token for another repository. The longest base of
// an authorizer applies, also if a repository is below another one.
func TestUsersOfRepositories(t *testing.T) {
	w := sourcetest.New(t)
	wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		user, _, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token":
			for _, scope := range r.URL.Query()["scope"] {
				if !strings.HasPrefix(scope, "repository:"+user+":") {
					refuse(http.StatusForbidden, "DENIED", "not yours")(rw, r)
					return
				}
			}
			fmt.Fprintf(rw, `{"token":"of %s"}`, user)
		case strings.HasPrefix(r.Header.Get("Authorization"), "Bearer of "):
			r.Header.Del("Authorization")
			next.ServeHTTP(rw, r)
		default:
			rw.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service="test"`, r.Host))
			refuse(http.StatusUnauthorized, "UNAUTHORIZED", "who?")(rw, r)
		}
	})
	access := oci.Access{Push: true, Credentials: func(_ context.Context, r oci.Repository) (oci.Credentials, error) {
		return oci.Credentials{Username: r.Name, Password: "password"}, nil
	}}
	client, a := fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1}), added("linux_amd64", 100)
	for _, at := range []string{"/mirror/${namespace}", "/mirror/${namespace}/${type}", "/other/${namespace}/${type}"} {
		template := sourcetest.Must(oci.ParseTemplate(w.OCI().Host + at))(t)
		check(t, put(t, oci.New(client, template, access), sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0"), oci.Change{Add: []oci.Added{a}}))
	}
}

// A program that supplies credentials may ask somebody for a second factor, which takes longer than an answer may.
func TestSlowCredentials(t *testing.T) {
	w := sourcetest.New(t)
	w.OCI().Login("writer", "a-secret-password", true)
	template := sourcetest.Must(oci.ParseTemplate(w.OCI().Template()))(t)
	client := fetch.New(fetch.Options{Transport: w.Client().Transport, Timeout: 200 * time.Millisecond, Tries: 1})
	m := oci.New(client, template, oci.Access{Push: true, Credentials: func(ctx context.Context, _ oci.Repository) (oci.Credentials, error) {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
		return oci.Credentials{Username: "writer", Password: "a-secret-password"}, context.Cause(ctx)
	}})
	_, err := m.Look(t.Context(), sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0"), nil)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
}
