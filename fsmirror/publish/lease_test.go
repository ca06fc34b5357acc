package publish_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A memory is a place that keeps a lease.
type memory struct {
	mu      sync.Mutex
	text    string
	version int
	down    error // of each write
	hangs   bool  // as each write does then, until its context ends
}

func (m *memory) slot() *memorySlot { return &memorySlot{of: m} }

// A memorySlot is the slot of one program.
type memorySlot struct {
	of   *memory
	seen int
}

func (s *memorySlot) Read(context.Context) (string, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.seen = s.of.version
	return s.of.text, nil
}

func (s *memorySlot) Write(ctx context.Context, text string) error {
	time.Sleep(20 * time.Millisecond)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.of.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.of.down != nil {
		return s.of.down
	}
	if s.seen != s.of.version {
		return publish.ErrTaken
	}
	s.of.version++
	s.of.text, s.seen = text, s.of.version
	return nil
}

// Several programs hold the lease one after the other. Those that wait say for whom, once.
func TestOneHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		var all sync.WaitGroup
		var mu sync.Mutex
		holding, done := 0, 0
		for i := range 5 {
			all.Go(func() {
				waited := map[string]int{}
				own := fmt.Sprint("program ", i)
				wait := func(holder string) { waited[holder]++ }
				check(t, publish.Hold(t.Context(), m.slot(), own, wait, func(context.Context) error {
					mu.Lock()
					holding++
					sourcetest.Equal(t, holding, 1, "holders")
					mu.Unlock()
					time.Sleep(3 * time.Minute) // it is renewed
					mu.Lock()
					defer mu.Unlock()
					holding--
					done++
					return nil
				}))
				for holder, times := range waited {
					other := strings.HasPrefix(holder, "program ") && holder != own
					sourcetest.Expect(t, times == 1 && other, "waited %d times for %s", times, holder)
				}
			})
		}
		all.Wait()
		sourcetest.Equal(t, done, 5)
	})
}

// The lease of a program that was killed is taken after a minute, also if its text can't be read by this program.
func TestAbandonedLease(t *testing.T) {
	for text, most := range map[string]time.Duration{
		`{"holder": "a killed program", "id": "x", "number": 3}`: 70 * time.Second, "": time.Second, "not a lease": time.Second, "{}": time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{text: text}
			start := time.Now()
			check(t, publish.Hold(t.Context(), m.slot(), "", func(string) {}, func(context.Context) error { return nil }))
			took := time.Since(start)
			sourcetest.Expect(t, took < most && (most < time.Minute || took > time.Minute), "%q was taken after %s", text, took)
		})
	}
}

// A program whose lease was taken stops, and so does one that can't renew it, before another one takes it.
func TestLostLease(t *testing.T) {
	for name, lose := range map[string]func(*memory){
		"taken": func(m *memory) { m.version, m.text = 99, `{"holder": "another", "id": "y"}` },
		"down":  func(m *memory) { m.down = errors.New("503") },
		"hangs": func(m *memory) { m.hangs = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m memory
				start := time.Now()
				err := publish.Hold(t.Context(), m.slot(), "", func(string) {}, func(ctx context.Context) error {
					m.mu.Lock()
					lose(&m)
					m.mu.Unlock()
					<-ctx.Done()
					return ctx.Err()
				})
				sourcetest.ErrorIs(t, err, publish.ErrTaken)
				sourcetest.Expect(t, !errors.Is(err, context.Canceled), "got %v", err)
				sourcetest.Expect(t, time.Since(start) <= time.Minute, "it stopped after %s", time.Since(start))
				sourcetest.Expect(t, m.down != nil || m.hangs || strings.Contains(m.text, "another"), "the lease of another program became %q", m.text)
			})
		})
	}
}

// A place that returns an old text, or refuses every write, ends the push with an error instead of a wait without end.
func TestLeaseThatCannotBeTaken(t *testing.T) {
	for _, text := range []string{"", "not a lease", `{"holder": "a killed program", "id": "x"}`} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			m := &memory{text: text, down: publish.ErrTaken}
			err := publish.Hold(t.Context(), m.slot(), "", func(string) {}, func(context.Context) error { panic("held") })
			sourcetest.ErrorIs(t, err, publish.ErrTaken)
			sourcetest.Expect(t, strings.Contains(err.Error(), "hasn't changed for 2m0s"), "got %v", err)
			sourcetest.Expect(t, time.Since(start) < 3*time.Minute, "it waited for %s", time.Since(start))
		})
	}
}

// Waiting ends with the context, and the error of the work is returned.
func TestHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{text: `{"holder": "another", "id": "y"}`}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := publish.Hold(ctx, m.slot(), "", func(string) {}, func(context.Context) error { panic("held") })
		sourcetest.ErrorIs(t, err, context.DeadlineExceeded)

		own := errors.New("own")
		err = publish.Hold(t.Context(), new(memory).slot(), "", func(string) {}, func(context.Context) error { return own })
		sourcetest.Expect(t, err == own, "got %v", err)
	})
}

// A tag is a lease in a registry, where a write replaces whatever is there.
type tag struct {
	mu   sync.Mutex
	text string
}

// A tagOf is the tag for one program, whose writes have their effect after a time.
type tagOf struct {
	*tag
	slow time.Duration
}

func (t tagOf) Lease(context.Context, sources.Provider) (string, error) {
	time.Sleep(time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text, nil
}

func (t tagOf) SetLease(_ context.Context, _ sources.Provider, text string) error {
	time.Sleep(t.slow)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = text
	return nil
}

// Of programs that write the lease in a registry at the same time, one has it, also if the writes of another one are
// slow: it stops before that one begins.
func TestTagAtOnce(t *testing.T) {
	p := sourcetest.Address(t, provider)
	for slow := 10 * time.Millisecond; slow < 20*time.Second; slow += slow / 40 {
		synctest.Test(t, func(t *testing.T) {
			var at tag
			var all sync.WaitGroup
			var working atomic.Int64
			for i, slow := range []time.Duration{time.Millisecond, 2 * time.Millisecond, slow} {
				all.Go(func() {
					work := func(ctx context.Context) error {
						defer working.Add(-1)
						sourcetest.Equal(t, working.Add(1), int64(1), "programs with the lease if a write takes", slow)
						return fetch.Sleep(ctx, 40*time.Second)
					}
					for err := publish.ErrTaken; errors.Is(err, publish.ErrTaken); {
						err = publish.Hold(t.Context(), publish.TagSlot(tagOf{&at, slow}, p), fmt.Sprint("program ", i), func(string) {}, work)
						sourcetest.Expect(t, err == nil || errors.Is(err, publish.ErrTaken), "error %v", err)
					}
				})
			}
			all.Wait()
		})
	}
}

// An object or a tag that is not a lease is overwritten. It would stop all pushes of the provider.
func TestUnreadableLease(t *testing.T) {
	held := func(t *testing.T, in publish.Slot) {
		t.Helper()
		start := time.Now()
		check(t, publish.Hold(t.Context(), in, "", func(string) {}, func(context.Context) error { return nil }))
		sourcetest.Expect(t, time.Since(start) < time.Minute/2, "it was taken after %s", time.Since(start))
	}
	p := sourcetest.Address(t, provider)
	for name, object := range map[string]string{"large": strings.Repeat("x", 100<<10), "no text": "\xff\x00"} {
		t.Run("bucket, "+name, func(t *testing.T) {
			b := bucketOf(t, func(w http.ResponseWriter, r *http.Request) {
				tag := func() string { return fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(object)))) }
				switch {
				case r.URL.Query().Has("list-type"):
					fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
					return
				case r.Method == http.MethodPut && r.Header.Get("If-Match") != tag():
					w.WriteHeader(http.StatusPreconditionFailed)
					return
				case r.Method == http.MethodPut:
					data := sourcetest.Must(io.ReadAll(r.Body))(t)
					object = string(data)
				}
				w.Header().Set("ETag", tag())
				w.Header().Set("Last-Modified", "Mon, 02 Jan 2023 15:04:05 GMT")
				if r.Method != http.MethodPut {
					w.Header().Set("Content-Length", fmt.Sprint(len(object)))
				}
				if r.Method == http.MethodGet {
					fmt.Fprint(w, object)
				}
			})
			held(t, b.Slot(p))
			sourcetest.Equal(t, object, "{}")
		})
	}
	for name, text := range map[string]string{
		"not a manifest": "no JSON",
		"wrong type":     `{"schemaVersion": 2, "annotations": {"vnd.larder.lease": 5}}`,
		"large":          `{"schemaVersion": 2, "annotations": {"vnd.larder.lease": "` + strings.Repeat("x", 5<<20) + `"}}`,
		"many values":    "[" + strings.Repeat("1,", 1<<18) + "1]",
	} {
		t.Run("registry, "+name, func(t *testing.T) {
			w := sourcetest.New(t)
			written := false
			w.OCI().Wrap(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/manifests/larder-lease") && !written {
						if written = r.Method == http.MethodPut; !written {
							rw.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
							fmt.Fprint(rw, text)
							return
						}
					}
					next.ServeHTTP(rw, r)
				})
			})
			r := &registry{t, w.OCI().Host, transportOf(w), nil}
			held(t, r.pusher().Slot(p))
			sourcetest.Expect(t, written, "it wasn't written")
		})
	}
}
