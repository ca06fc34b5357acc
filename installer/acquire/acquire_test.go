package acquire_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A road is a source, a downloader, a store and its transaction. It logs the steps.
type road struct {
	steps    []string
	held     sources.Held
	offered  []sources.Hash
	archives []string       // by attempt
	failing  string         // the step that fails
	others   sources.Stored // recorded for another platform
	sourcetest.Buffer
}

var errStep = errors.New("this step fails")

func (r *road) step(format string, args ...any) error {
	step := fmt.Sprintf(format, args...)
	r.steps = append(r.steps, step)
	if name, _, _ := strings.Cut(step, " "); name == r.failing {
		return errStep
	}
	return nil
}

func zh(text string) sources.Hash { return sources.ZipHash(sha256.Sum256([]byte(text))) }
func h1(text string) sources.Hash { return sources.ContentsHash(sha256.Sum256([]byte(text))) }

func (r *road) PackagesOf(context.Context, sources.Provider) ([]sources.PackageID, error) {
	return nil, nil
}

func (r *road) String() string { return "road" }

func (r *road) Versions(context.Context, sources.Provider) (sources.Listing, error) {
	return sources.Listing{}, nil
}

func (r *road) Package(_ context.Context, id sources.PackageID) (sources.Package, error) {
	p := sources.Package{ID: id, Hashes: r.offered, Kind: sources.FromNetwork, Source: "road"}
	p.Location.URL = "https://example.test/widget.zip"
	return p, r.step("ask")
}

func (r *road) Download(_ context.Context, _ fetch.Archive, to fetch.Stage) error {
	text := r.archives[0]
	r.archives = r.archives[1:]
	_, err := io.WriteString(to, text)
	return errors.Join(err, r.step("fetch"))
}

func (r *road) Get(context.Context, sources.PackageID) (sources.Stored, error) {
	return r.held.Package, r.step("get")
}

func (r *road) Begin(_ context.Context, _ sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error) {
	err := r.step("begin %d", purpose)
	return r.held, transaction{r}, err
}

func (r *road) Use(context.Context) (release func(), err error) { return func() {}, nil }

func (r *road) Recall(id sources.PackageID) (sources.Stored, error) {
	if id.Platform == onPlan9 && r.others.H1 != "" {
		return r.others, nil
	}
	return sources.Stored{}, sources.ErrNotFound
}

func (r *road) Recorded(sources.Provider, sources.Version) ([]sources.Platform, error) {
	return []sources.Platform{onPlan9}, nil
}

var onPlan9 = sources.Platform{OS: "plan9", Arch: "386"}

func (r *road) Evidence(sources.Provider, sources.Version) (*sources.Signed, error) {
	return nil, sources.ErrNotFound
}

type transaction struct{ *road }

func (t transaction) Stage(sources.Observer) (sources.Stage, error) {
	return &t.Buffer, t.step("stage")
}

func (t transaction) Unpack(context.Context, sources.Payload) (sources.Contents, error) {
	return sources.Contents{H1: h1(t.Buffer.String())}, t.step("unpack")
}

func (t transaction) Commit(_ context.Context, by sources.Provenance) (sources.Stored, error) {
	return sources.Stored{H1: h1(t.Buffer.String()), ZH: by.ZH, Proof: by.Proof}, t.step("commit matched: %v", by.Proof.Matched)
}

func (t transaction) Close() {
	_ = t.step("close")
	t.Buffer.Buffer.Reset()
}

// Wherever an acquisition ends, the steps before run in order, only judged packages
// are committed, and each transaction is closed.
func TestAcquireSteps(t *testing.T) {
	const all = "ask, begin 0, stage, fetch, unpack, commit matched: true, close"
	held := func(text string) sources.Held {
		return sources.Held{Package: sources.Stored{H1: h1(text), ZH: zh(text)}}
	}
	for _, c := range []struct {
		name   string
		locked []sources.Hash
		road   road
		looked sources.Stored // the package that the caller found
		hash   bool           // the package is acquired to be hashed
		want   string
		err    error // nil, or the error to match; errAny matches any
	}{
		{name: "not stored", road: road{offered: []sources.Hash{zh("a")}}, want: all},
		{name: "to be hashed", road: road{offered: []sources.Hash{zh("a")}}, hash: true, want: strings.Replace(all, "0", "1", 1)},
		{name: "stored package suffices", locked: []sources.Hash{h1("a")}, looked: held("a").Package},
		{name: "stored package does not suffice", locked: []sources.Hash{h1("a")}, looked: held("b").Package, road: road{offered: []sources.Hash{zh("a")}}, want: all},
		{name: "stored meanwhile", road: road{offered: []sources.Hash{zh("a")}, held: held("a")}, want: "ask, begin 0, close"},
		{name: "another package is stored", road: road{offered: []sources.Hash{zh("a")}, held: held("b")}, want: all},
		{name: "another archive is received", road: road{offered: []sources.Hash{zh("b")}}, want: "ask, begin 0, stage, fetch, close, begin 0, stage, fetch, close", err: errAny},
		{name: "second attempt succeeds", road: road{offered: []sources.Hash{zh("a")}, archives: []string{"b", "a"}}, want: "ask, begin 0, stage, fetch, close, begin 0, stage, fetch, unpack, commit matched: true, close"},
		{name: "contents differ from the locked ones", locked: []sources.Hash{h1("b")}, road: road{offered: []sources.Hash{zh("a")}}, want: "ask, begin 0, stage, fetch, unpack, close", err: errAny},
		{name: "contents differ from the verified ones", road: road{offered: []sources.Hash{zh("a")}, held: sources.Held{Known: held("b").Package}}, want: "ask, begin 0, stage, fetch, unpack, close", err: errAny},
		{name: "contents differ from those of the same archive", locked: []sources.Hash{zh("a")}, road: road{offered: []sources.Hash{zh("a")}, held: sources.Held{Known: sources.Stored{H1: h1("b"), ZH: zh("a")}}}, want: "ask, begin 0, stage, fetch, unpack, close", err: errAny},
		{name: "contents differ from those of the same archive for another platform", locked: []sources.Hash{zh("a"), h1("a")}, road: road{offered: []sources.Hash{zh("a")}, others: sources.Stored{H1: h1("b"), ZH: zh("a")}}, want: "ask, begin 0, stage, fetch, unpack, close", err: errAny},
		{name: "another archive for another platform", road: road{offered: []sources.Hash{zh("a")}, others: sources.Stored{H1: h1("b"), ZH: zh("b")}}, want: all},
		{name: "cannot be verified", road: road{}, want: strings.Replace(all, "true", "false", 1)},
		{name: "source fails", road: road{failing: "ask"}, want: "ask", err: errStep},
		{name: "locking fails", road: road{failing: "begin"}, want: "ask, begin 0", err: errStep},
		{name: "staging fails", road: road{failing: "stage"}, want: "ask, begin 0, stage, close", err: errStep},
		{name: "download fails", road: road{failing: "fetch"}, want: "ask, begin 0, stage, fetch, close", err: errStep},
		{name: "unpacking fails", road: road{failing: "unpack", offered: []sources.Hash{zh("a")}}, want: "ask, begin 0, stage, fetch, unpack, close", err: errStep},
		{name: "commit fails", road: road{failing: "commit", offered: []sources.Hash{zh("a")}}, want: all, err: errStep},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &c.road
			if r.archives == nil {
				r.archives = []string{"a", "a"}
			}
			slots := acquire.NewSlots(1)
			var slot acquire.Slot
			req := acquire.Request{ID: sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64"), Locked: c.locked, By: acquire.TheLockFile, Slot: &slot}
			if c.hash {
				req.Purpose = sources.ToHash
			}
			res, err := acquire.New(r, r, r, acquire.Options{Slots: slots}).Acquire(t.Context(), req, c.looked)
			slot.Leave()
			if got := strings.Join(r.steps, ", "); got != c.want {
				t.Errorf("steps: %s\nwant:  %s", got, c.want)
			}
			switch {
			case c.err == nil && (err != nil || res.Package.H1 != h1("a")), c.err != nil && err == nil, c.err == errStep && !errors.Is(err, errStep):
				t.Errorf("got %+v, %v", res.Package, err)
			case res.Fetched != slices.ContainsFunc(r.steps, func(s string) bool { return s == "fetch" }):
				t.Errorf("fetched: %t", res.Fetched)
			case len(slots) != 0:
				t.Error("the slot is still taken")
			}
		})
	}
}

// errAny matches any error.
var errAny = errors.New("any")

// Locked hashes do not refuse a package if all that count belong to other platforms.
func TestOfOthers(t *testing.T) {
	h := func(hashes ...sources.Hash) []sources.Hash { return hashes }
	for _, c := range []struct {
		name          string
		locked, known []sources.Hash
		want          bool
	}{
		{name: "nothing is locked", known: h(zh("other"))},
		{name: "another platform's archive", locked: h(zh("other")), known: h(zh("other")), want: true},
		{name: "nothing is known", locked: h(zh("other"))},
		{name: "one of two archives is known", locked: h(zh("other"), zh("third")), known: h(zh("other"))},
		{name: "archives decide", locked: h(zh("other"), h1("other"), h1("third")), known: h(zh("other")), want: true},
		{name: "contents don't make up for archives", locked: h(zh("other"), h1("other")), known: h(h1("other"))},
		{name: "contents alone", locked: h(h1("other")), known: h(h1("other")), want: true},
		{name: "contents alone, one unknown", locked: h(h1("other"), h1("third")), known: h(h1("other"))},
		{name: "other schemes", locked: h("h9:x"), known: h("h9:x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := new(road)
			a := acquire.New(r, r, r, acquire.Options{})
			id := sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64")
			sourcetest.Equal(t, a.OfOthers(id, c.locked, c.known), c.want)
		})
	}
}
