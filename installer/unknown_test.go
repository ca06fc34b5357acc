package installer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const (
	onWindows = "widget 1.0.0 windows_amd64"
	onPlan9   = "widget 1.0.0 plan9_386"
)

// signedAll signs the archives of these packages together as the publisher.
func signedAll(packages ...string) func(*sources.Package) {
	return func(p *sources.Package) {
		key := sourcetest.Publisher()
		var sums []byte
		for _, text := range packages {
			sum, _ := strings.CutPrefix(string(zh(text)), "zh:")
			sums = fmt.Appendf(sums, "%s  terraform-provider-%s.zip\n", sum, strings.ReplaceAll(text, " ", "_"))
		}
		p.Signed = &sources.Signed{Sums: sums, Signature: key.Sign(sums), Keys: []sources.Key{{Armor: key.Armor()}}}
	}
}

// newUnknownFixture has a package for three platforms, and signed checksums for a
// fourth, which the registry lacks. The root module requires it, and is locked on
// Linux.
func newUnknownFixture(t *testing.T) *fixture {
	f := newFixture(t)
	edit := signedAll(onLinux, onDarwin, onWindows, onPlan9)
	for _, text := range []string{onLinux, onDarwin, onWindows} {
		f.source.add(text, edit)
	}
	f.require("widget", "")
	return f
}

func (f *fixture) evidence() *sources.Signed {
	var p sources.Package
	signedAll(onLinux, onDarwin, onWindows, onPlan9)(&p)
	return p.Signed
}

// foreignArchive and foreignContents are invented hashes.
const foreignContents = sources.Hash("h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")

var foreignArchive = zh("invented")

// unknown returns "LINE HASH" and the properties of each unknown hash.
func unknown(r *installer.Result) string {
	names := map[sources.Hash]string{
		foreignContents: "contents", foreignArchive: "archive", h1(onDarwin): "darwin", h1(onWindows): "windows",
	}
	var all []string
	for _, u := range r.Unknown {
		text := fmt.Sprintf("%d %s", u.Line, names[u.Hash])
		if u.Refused {
			text += " refused"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestUnknownHashes(t *testing.T) {
	h := func(hashes ...sources.Hash) []sources.Hash { return hashes }
	genuine := h(h1(onLinux), zh(onLinux), zh(onDarwin), zh(onWindows), zh(onPlan9))
	with := func(more ...sources.Hash) []sources.Hash { return slices.Concat(genuine, more) }
	remembered := func(text string, verdict sources.Verdict, signed bool) func(*fixture) {
		return func(f *fixture) {
			known := sources.Stored{ID: id(text), H1: h1(text), ZH: zh(text), Proof: proven(id(text), verdict)}
			if signed {
				known.Signed = f.evidence()
			}
			f.store.known[id(text)] = known
		}
	}
	onLinuxKnown := remembered(onLinux, sources.SelfSigned, true)
	fromRegistry := "download linux_amd64, package linux_amd64"
	for _, c := range []struct {
		name   string
		locked []sources.Hash // on lines from 5 on
		prior  func(*fixture)
		strict bool
		want   string
		asked  string
	}{
		{name: "complete and genuine", locked: genuine, asked: fromRegistry},
		{name: "only from the cache", locked: genuine, prior: onLinuxKnown},
		{name: "invented", locked: with(foreignContents, foreignArchive), want: "11 archive", asked: fromRegistry},
		{name: "invented, only from the cache", locked: with(foreignContents, foreignArchive), prior: onLinuxKnown, want: "11 archive"},
		{name: "altered", locked: h(h1(onLinux), zh(onLinux), foreignArchive), prior: onLinuxKnown, want: "7 archive"},
		{name: "twice in the file", locked: with(foreignArchive, foreignArchive), prior: onLinuxKnown, want: "10 archive"},
		{name: "genuine, of another platform", locked: with(h1(onDarwin)), prior: onLinuxKnown},
		{name: "unknown schemes", locked: with("h9:x", "zz:"), prior: onLinuxKnown},
		{name: "strict, invented", locked: with(foreignContents, foreignArchive), strict: true, want: "10 contents, 11 archive", asked: fromRegistry},
		{name: "strict, of another platform", locked: with(h1(onDarwin)), prior: onLinuxKnown, strict: true, want: "10 darwin"},
		{name: "strict, of another recorded platform", locked: with(h1(onDarwin), foreignContents), strict: true, want: "11 contents", prior: func(f *fixture) {
			onLinuxKnown(f)
			remembered(onDarwin, sources.SelfSigned, true)(f)
		}},
		{name: "strict, of another platform that was only imported", locked: with(h1(onDarwin)), strict: true, want: "10 darwin", prior: func(f *fixture) {
			onLinuxKnown(f)
			remembered(onDarwin, sources.HashOnly, false)(f)
		}},

		{name: "no signed checksums are known", locked: with(foreignContents), asked: fromRegistry, prior: func(f *fixture) {
			for pid, p := range f.source.packages {
				fromMirror(h1(onLinux))(&p)
				p.Signed = nil
				f.source.packages[pid] = p
			}
		}},
		{name: "signed checksums in the store", locked: with(foreignArchive), want: "10 archive", asked: fromRegistry, prior: func(f *fixture) {
			unsigned(f, onLinux)
			f.kept = f.evidence()
		}},
		{name: "signed checksums in the store, altered", locked: with(foreignArchive), asked: fromRegistry, prior: func(f *fixture) {
			unsigned(f, onLinux)
			f.kept = f.evidence()
			f.kept.Sums = append(f.kept.Sums, "# altered\n"...)
		}},
		{name: "signed checksums in the store, of other archives", locked: h(h1(onLinux), zh(onDarwin), zh("repacked"), foreignArchive), asked: fromRegistry, prior: func(f *fixture) {
			unsigned(f, "repacked")
			f.kept = f.evidence()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newUnknownFixture(t)
			f.lock("widget 1.0.0", c.locked...)
			if c.prior != nil {
				c.prior(f)
			}
			if f.kept != nil {
				f.store.evidence = map[sources.Version]*sources.Signed{id(onLinux).Version: f.kept}
			}
			locker := &installer.Locker{Installer: installer.New(f.source, f.store, f.source, f.opts), Strict: c.strict}
			result, err := locker.Lock(t.Context(), f.root)
			f.must(err)
			sourcetest.Equal(t, unknown(result), c.want, "unknown")
			sourcetest.Equal(t, asked(f), c.asked, "asked for")
			want := slices.Sorted(slices.Values(append(c.locked, result.Lock.Entries[0].Hashes...)))
			lock, ds := lockfile.Read(f.lockPath())
			f.must(ds.Err())
			now, _ := lock.Entry(provider("widget"))
			slices.Sort(now.Hashes)
			sourcetest.EqualSlices(t, slices.Compact(now.Hashes), slices.Compact(want), "locked")
		})
	}
}

// unsigned offers the package for Linux in a mirror without signed checksums, with
// the text as its archive.
func unsigned(f *fixture, text string) {
	p := f.source.packages[id(onLinux)]
	fromMirror(zh(text))(&p)
	p.Signed = nil
	f.source.packages[id(onLinux)] = p
	f.source.archives[p.Location.URL] = text
}

// asked returns the requests, by platform.
func asked(f *fixture) string {
	var all []string
	for _, line := range f.source.asked {
		line = strings.TrimSuffix(strings.Replace(line, "https://example.test/", "", 1), ".zip")
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '/' })
		all = append(all, words[0]+" "+words[len(words)-1])
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// The unknown hashes of a refused lock file are reported too.
func TestUnknownHashesOfARefusedProvider(t *testing.T) {
	f := newUnknownFixture(t)
	f.lock("widget 1.0.0", foreignContents, foreignArchive)
	result, err := f.locker().Lock(t.Context(), f.root)
	sourcetest.Expect(t, err != nil, "not refused")
	sourcetest.Equal(t, unknown(result), "6 archive refused")
}
