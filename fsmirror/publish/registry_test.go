package publish_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

// A registry is one that tests push to.
type registry struct {
	*testing.T
	host      string
	transport func() *http.Transport
	running   *sourcetest.Running // nil if it is in memory
}

// inRegistries runs a test with each kind of registry.
func inRegistries(t *testing.T, test func(r *registry)) {
	t.Run("memory", func(t *testing.T) {
		w := sourcetest.New(t)
		test(&registry{t, w.OCI().Host, transportOf(w), nil})
	})
	inProgram(t, test)
}

// transportOf returns a function that returns transports to the servers of a world.
func transportOf(w *sourcetest.World) func() *http.Transport {
	return func() *http.Transport { return w.Client().Transport.(*http.Transport) }
}

// inProgram runs a test with a registry in a process of its own.
func inProgram(t *testing.T, test func(r *registry)) {
	t.Run("registry", func(t *testing.T) {
		s := sourcetest.NewRegistry(t, false)
		test(&registry{t, s.Host, s.Transport, s})
	})
}

// A client is a process with a client of its own.
type client struct {
	*publish.OCI
	network *network
}

// client returns a client. Its template has a path of its own for each provider.
func (r *registry) client(access oci.Access) *client {
	return r.clientAt("mirror/${namespace}/${type}", access)
}

func (r *registry) clientAt(template string, access oci.Access) *client {
	r.Helper()
	parsed := sourcetest.Must(oci.ParseTemplate(r.host + "/" + template))(r)
	n := newNetwork(r.transport())
	r.Cleanup(n.close)
	c := fetch.New(fetch.Options{Transport: n, Timeout: 10 * time.Second, Tries: 6, Sleep: func(ctx context.Context, d time.Duration) error {
		time.Sleep(d / 8)
		return ctx.Err()
	}})
	return &client{&publish.OCI{Mirror: oci.New(c, parsed, access), URL: "oci://" + r.host + "/" + template}, n}
}

// pusher returns a client that can push.
func (r *registry) pusher() *client { return r.client(oci.Access{Push: true}) }

// A network records requests, and breaks connections.
type network struct {
	transport *http.Transport
	large     *http.Transport // for large bodies, which Larder sends over HTTP/1.1
	left      atomic.Int64    // bytes until the connection that sends them breaks; 0 means never

	mu       sync.Mutex
	requests []string
}

func newNetwork(t *http.Transport) *network {
	n := &network{transport: t}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &breaking{c, n}, err
	}
	n.large = t.Clone()
	n.large.ForceAttemptHTTP2, n.large.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	return n
}

// close closes idle connections.
func (n *network) close() {
	n.transport.CloseIdleConnections()
	n.large.CloseIdleConnections()
}

// RoundTrip implements [http.RoundTripper].
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	over := n.transport
	if req.ContentLength >= 1<<20 {
		over = n.large
	}
	resp, err := over.RoundTrip(req)
	n.mu.Lock()
	defer n.mu.Unlock()
	line := req.Method + " " + req.URL.Path
	if err == nil {
		line += " " + fmt.Sprint(resp.StatusCode)
	}
	n.requests = append(n.requests, line)
	return resp, err
}

// uploads returns the requests since the last call that could have changed something.
func (n *network) uploads() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.requests {
		if !strings.HasPrefix(line, "GET ") && !strings.HasPrefix(line, "HEAD ") {
			all = append(all, line)
		}
	}
	n.requests = nil
	return all
}

// breaking is a connection that breaks when enough has been sent.
type breaking struct {
	net.Conn
	network *network
}

func (b *breaking) Write(p []byte) (int, error) {
	if left := b.network.left.Load(); left > 0 && b.network.left.Add(-int64(len(p))) <= 0 {
		b.network.left.Store(0)
		b.Close()
		return 0, errors.New("cut")
	}
	return b.Conn.Write(p)
}

// randomBytes returns other bytes with each call.
func randomBytes(size int) []byte {
	var seed [32]byte
	_, _ = rand.Read(seed[:])
	data := make([]byte, size)
	_, _ = mathrand.NewChaCha8(seed).Read(data) // faster than crypto/rand
	return data
}

// released returns a release with random archives for platforms.
func released(t *testing.T, provider, version string, size int, platforms ...string) publish.Release {
	t.Helper()
	r := publish.Release{Release: sources.Release{Provider: sourcetest.Address(t, provider), Version: sourcetest.Number(t, version)}}
	for _, platform := range platforms {
		data := randomBytes(size)
		path := filepath.Join(t.TempDir(), "archive.zip")
		check(t, os.WriteFile(path, data, 0o644))
		hash := sources.ZipHash(sha256.Sum256(data))
		r.Packages = append(r.Packages, publish.Package{
			ID: sourcetest.PackageID(t, provider, version, platform), Path: path, Size: int64(size), ZH: hash, Hashes: []sources.Hash{hash},
		})
	}
	return r
}

func signed(origin string) *sources.Signed {
	return &sources.Signed{Sums: []byte("sums"), Signature: []byte("signature"), Keys: []sources.Key{{Armor: "key"}}, Origin: origin}
}

// push pushes releases, and returns PROVIDER VERSION PLATFORM DID of each change.
func (r *registry) push(c *client, opts publish.Options, releases ...publish.Release) []string {
	r.Helper()
	result := sourcetest.Must(publish.Push(r.Context(), c, releases, opts))(r)
	return changes(result)
}

func changes(result publish.Result) (all []string) {
	for _, c := range result.Changes {
		if c.Did != publish.Kept {
			all = append(all, fmt.Sprint(c.ID.Version, " ", c.ID.Platform, " ", c.Did))
		}
	}
	return all
}

// contents returns VERSION PLATFORM HASH of all packages of a provider, as a new client reads them, and the origin of the evidence
// of each version.
func (r *registry) contents(provider string) (all []string) {
	r.Helper()
	c, p := r.client(oci.Access{}), sourcetest.Address(r, provider)
	list, err := c.Mirror.Versions(r.Context(), p)
	if errors.Is(err, sources.ErrNotFound) {
		return nil
	}
	check(r, err)
	for _, v := range list.Versions {
		release := sourcetest.Must(c.Release(r.Context(), p, v))(r)
		sourcetest.EqualSlices(r, release.Warnings, nil, "warnings")
		for platform, a := range release.Archives {
			all = append(all, fmt.Sprint(v, " ", platform, " ", a.Hashes[0]))
		}
		if release.Signed != nil {
			all = append(all, fmt.Sprint(v, " ", release.Signed.Origin))
		}
	}
	slices.Sort(all)
	return all
}

func hashes(releases ...publish.Release) (all []string) {
	for _, r := range releases {
		for _, p := range r.Packages {
			all = append(all, fmt.Sprint(r.Version, " ", p.ID.Platform, " ", p.ZH))
		}
		if r.Signed != nil {
			all = append(all, fmt.Sprint(r.Version, " ", r.Signed.Origin))
		}
	}
	slices.Sort(all)
	return all
}

const provider = "example.com/acme/widget"

func TestPush(t *testing.T) {
	inRegistries(t, func(r *registry) {
		one := released(r.T, provider, "1.0.0", 3<<20, "linux_amd64", "darwin_arm64")
		two := released(r.T, provider, "1.1.0+build.1", 100, "linux_amd64")
		one.Signed = signed("https://example.com/1")
		c := r.pusher()

		sourcetest.Equal(r, len(r.push(c, publish.Options{DryRun: true}, one, two)), 3, "changes of a dry run")
		sourcetest.EqualSlices(r, c.network.uploads(), nil, "requests of a dry run")
		sourcetest.EqualSlices(r, r.push(c, publish.Options{}, one, two),
			[]string{"1.0.0 darwin_arm64 added", "1.0.0 linux_amd64 added", "1.1.0+build.1 linux_amd64 added"}, "changes")
		sourcetest.EqualSlices(r, r.contents(provider), hashes(one, two), "contents")

		// The same process, and another one, upload nothing again.
		for _, again := range []*client{c, r.pusher()} {
			again.network.uploads()
			sourcetest.EqualSlices(r, r.push(again, publish.Options{}, one, two), nil, "changes again")
			sourcetest.EqualSlices(r, again.network.uploads(), nil, "requests again")
		}

		// Other evidence that is no better doesn't replace the evidence.
		otherEvidence := one
		otherEvidence.Signed = signed("https://example.com/2")
		sourcetest.EqualSlices(r, r.push(c, publish.Options{}, otherEvidence, two), nil, "changes with other evidence")
		sourcetest.EqualSlices(r, c.network.uploads(), nil, "requests with other evidence")
		sourcetest.EqualSlices(r, r.contents(provider), hashes(one, two), "contents with other evidence")

		// Other contents are refused.
		other := released(r.T, provider, "1.0.0", 200, "linux_amd64")
		other.Signed = signed("https://example.com/3")
		c.network.uploads()
		result, err := publish.Push(r.Context(), c, []publish.Release{other}, publish.Options{Prune: func(sources.PackageID) bool { return true }, DryRun: true})
		sourcetest.Require(r, differs(err, one, other) && result.Differ == 1, "got %+v, %v", result, err)
		sourcetest.EqualSlices(r, c.network.uploads(), nil, "requests after a refusal")
		sourcetest.EqualSlices(r, r.push(c, publish.Options{Replace: true}, other), []string{"1.0.0 linux_amd64 replaced"}, "changes")
		both := one
		both.Packages, both.Signed = []publish.Package{other.Packages[0], one.Packages[1]}, other.Signed
		sourcetest.EqualSlices(r, r.contents(provider), hashes(both, two), "contents after a replacement")

		// What the mirror doesn't have is removed.
		sourcetest.EqualSlices(r, r.push(c, publish.Options{Prune: func(sources.PackageID) bool { return true }}, other), []string{"1.0.0 darwin_arm64 removed", "1.1.0+build.1 linux_amd64 removed"}, "changes")
		sourcetest.EqualSlices(r, r.contents(provider), hashes(other), "contents after pruning")
	})
}

// An upload continues after connections broke.
func TestBrokenConnections(t *testing.T) {
	inRegistries(t, func(r *registry) {
		for _, size := range []int{600 << 10, 6 << 20} {
			for _, after := range []int64{300 << 10, 4 << 20} {
				if int64(size) < after {
					continue
				}
				one := released(r.T, provider, "1.0.0", size, "linux_amd64")
				c := r.pusher()
				c.network.left.Store(after)
				var done, of atomic.Int64
				r.push(c, publish.Options{Replace: true, Report: func(is, all int64) { done.Store(is); of.Store(all) }}, one)
				sourcetest.EqualSlices(r, r.contents(provider), hashes(one), "contents")
				sourcetest.Expect(r, c.network.left.Load() == 0 && done.Load() == int64(size) && of.Load() == int64(size), "reported %d of %d bytes; %d left", done.Load(), of.Load(), c.network.left.Load())
			}
		}
	})
}

// Many pushers change the same repository, one at a time, while many readers read it. Readers never see less than before, and nothing is lost.
func TestPushersAndReaders(t *testing.T) {
	inRegistries(t, func(r *registry) {
		platforms := []string{"linux_amd64", "linux_arm64", "darwin_arm64", "windows_amd64", "freebsd_amd64"}
		var all []publish.Release
		var pushers sync.WaitGroup
		for i, platform := range platforms {
			mine := []publish.Release{
				released(r.T, provider, "1.0.0", 64<<10, platform),
				released(r.T, provider, fmt.Sprintf("1.%d.0", i+1), 300<<10, "linux_amd64"),
			}
			all = append(all, mine...)
			c := r.pusher()
			pushers.Go(func() {
				if _, err := publish.Push(r.Context(), c, mine, publish.Options{}); err != nil {
					r.Error(err)
				}
			})
		}
		ctx, stop := context.WithCancel(r.Context())
		var readers sync.WaitGroup
		var seen sync.Map // versions that a reader has read
		for range 8 {
			readers.Go(func() {
				for ctx.Err() == nil {
					c := r.client(oci.Access{})
					list, err := c.Mirror.Versions(ctx, sourcetest.Address(r, provider))
					for _, v := range list.Versions {
						_, was := seen.Load(v) // registries list a tag a moment before they have it
						var release sources.Holding
						if release, err = c.Release(ctx, sourcetest.Address(r, provider), v); !was && errors.Is(err, sources.ErrNotFound) {
							err = nil
							continue
						}
						if err != nil {
							break
						}
						sourcetest.Expect(r, len(release.Archives) > 0, "version %s has no archives", v)
						seen.Store(v, true)
					}
					c.network.close()
					time.Sleep(100 * time.Millisecond)
					if errors.Is(fetch.Absent(err), sources.ErrNotFound) && len(list.Versions) == 0 || ctx.Err() != nil {
						continue
					}
					if err != nil {
						r.Error(err)
						return
					}
				}
			})
		}
		pushers.Wait()
		stop()
		readers.Wait()
		want := hashes(all...)
		slices.Sort(want)
		sourcetest.EqualSlices(r, r.contents(provider), want, "contents")
	})
}

// A pusher that is killed before any of its requests leaves whole versions, and the next one completes them.
func TestKilledPusher(t *testing.T) {
	w := sourcetest.New(t)
	r := &registry{t, w.OCI().Host, transportOf(w), nil}
	for n, sent := int64(1), int64(1); sent >= n; n++ {
		name := fmt.Sprintf("example.com/acme/widget-%d", n)
		one := released(t, name, "1.0.0", 10, "linux_amd64", "darwin_arm64")
		two := released(t, name, "1.1.0", 10, "linux_amd64")
		one.Signed = signed("https://example.com/1")
		ctx, cancel := context.WithCancel(t.Context())
		requests := &interrupted{RoundTripper: w.Client().Transport, n: n}
		requests.do = func() {
			requests.killed.Store(true)
			cancel()
		}
		to := r.pusher()
		to.Mirror = oci.New(fetch.New(fetch.Options{Transport: requests}), to.Template, oci.Access{Push: true})
		_, _ = publish.Push(ctx, to, []publish.Release{one, two}, publish.Options{})
		cancel()
		sent = requests.sent.Load()
		whole := hashes(one, two)
		for _, line := range r.contents(name) {
			sourcetest.Expect(t, slices.Contains(whole, line), "%s is not what was pushed", line)
		}
		check(t, r.pusher().SetLease(t.Context(), sourcetest.Address(t, name), "")) // as if it had expired
		r.push(r.pusher(), publish.Options{}, one, two)
		sourcetest.EqualSlices(t, r.contents(name), whole, "contents")
	}
}

// A registry that crashes and starts again meanwhile has what was pushed.
func TestCrash(t *testing.T) {
	inProgram(t, func(r *registry) {
		var all []publish.Release
		for i := range 8 {
			all = append(all, released(r.T, provider, fmt.Sprintf("1.%d.0", i), 4<<20, "linux_amd64"))
		}
		var begun sync.Once
		crash := make(chan struct{})
		done := make(chan error, 1)
		c := r.pusher()
		go func() {
			_, err := publish.Push(r.Context(), c, all, publish.Options{Report: func(is, of int64) {
				if is > of/4 {
					begun.Do(func() { close(crash) })
				}
			}})
			done <- err
		}()
		<-crash
		r.running.Stop()
		r.running.Start()
		check(r, <-done)
		sourcetest.EqualSlices(r, r.contents(provider), hashes(all...), "contents")
	})
}
