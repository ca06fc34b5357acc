package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A mirrorTrial is a trial of larder mirror sync and providers mirror.
type mirrorTrial struct {
	trial
	Prior          string // program that made the mirror before: engine or larder; empty if it is new
	PriorPlatforms []string
	JustArchives   bool // the mirror's documents are missing
	Damaged        bool // an archive in the mirror is damaged
	Republished    bool // a release was republished after the mirror was made
	NoLockFile     bool
	Strict         bool
	Warm           bool   // the plugin cache has the newest packages
	HiddenAt       string // a package that the registry does not have
}

// TestMirrorsAsEnginesDo compares larder mirror sync with providers mirror of both engines.
// Both must return the same exit status and write the same archives and equivalent documents,
// except for docs/deviations.md. Then init must install from the mirror, as a directory and
// from a server. A second sync must change nothing, and the engine must be able to update the
// mirror.
func TestMirrorsAsEnginesDo(t *testing.T) {
	t.Parallel()
	holdTrials(t, "mirror", 200, 60, func(g *generator, c *trial) *mirrorTrial {
		m := &mirrorTrial{trial: *c, Prior: one(g, "", "", "engine", "larder"), Strict: g.in(2), Warm: g.in(4)}
		if m.Prior != "" {
			m.PriorPlatforms = some(g, stockedPlatforms, 2)
			m.JustArchives = g.in(4)
			for i, r := range c.Releases {
				c.Releases[i].Later = r.Version == "1.2.0" && g.in(2)
			}
		}
		if m.Prior != "" && g.in(5) {
			r := one(g, c.Releases...)
			r.Later, r.Contents = true, "old name"
			c.Releases, m.Republished = append(c.Releases, r), true
		}
		m.Releases = c.Releases
		m.Damaged = m.Prior != "" && g.in(5) && !m.twofold() // the bytes of directories may not matter
		m.NoLockFile = c.Engine == sources.Terraform && g.in(6)
		if g.in(12) {
			r := one(g, c.Releases...)
			m.HiddenAt = r.Provider + "/" + r.Version + "/" + one(g, r.Platforms...)
		}
		return m
	})
}

func (m *mirrorTrial) hold(c *court) {
	m.makePrior(c)
	c.publish(true)
	c.arrangeLock()
	c.lay("direct {}")
	if m.Warm {
		c.run(c.ourArgs("prefetch", "--no-lock-file", "--cache", c.path("cache"))...)
	}
	if m.HiddenAt != "" {
		c.world.Registry.Hide(m.HiddenAt)
	}
	var want, got outcome
	m.restore(c)
	want.output, want.status = c.engine(m.theirs(c)...)
	theirs := m.look(c)
	m.restore(c)
	got.output, got.status = m.sync(c, m.dir(c), m.ours(c)...)
	ours := m.look(c)

	var differences []string
	if (want.status == 0) != (got.status == 0) {
		differences = append(differences, fmt.Sprintf("exit status %d, want %d", got.status, want.status))
	}
	if want.status == 0 && got.status == 0 {
		differences = append(differences, m.compare(c, theirs, ours)...)
	}
	after := ours.faults
	if got.status == 0 && !m.Republished && m.HiddenAt == "" { // else what is in the mirror need not be what is signed now
		after = append(after, m.followUp(c, ours)...)
	}
	if len(after) > 0 && !c.judge.complete() {
		differences = append(differences, after...) // perhaps an older release can't read a key
	} else if len(after) > 0 {
		c.t.Errorf("%s\n%s", strings.Join(after, "\n"), inFull(m)) // not explained by a deviation
	}
	c.settle(differences, []excuse{
		{"Lock files that lack providers", func() bool {
			return strings.Contains(want.output, "Inconsistent dependency lock file") &&
				strings.Contains(got.output, "the dependency lock file does not lock")
		}},
		{"Packages that don't match the lock file", func() bool {
			return want.status == 0 && strings.Contains(got.output, "but the dependency lock file has") &&
				(c.LockedBy != "" || m.hasHash("wrong h1", "wrong zh", "h1", "zh", "other h1", "other zh"))
		}},
		{"Expired keys", func() bool { return (want.status == 0) != (got.status == 0) && m.signedBy("expired key") }},
		{"Damaged archives in a mirror", func() bool {
			return m.Damaged && strings.Contains(got.output, "fetches damaged packages again")
		}},
		{"Republished releases", func() bool {
			return m.Republished && strings.Contains(got.output, "the release was republished")
		}},
		{"Platforms that a provider lacks", func() bool {
			only := want.status != 0 && got.status == 0 && !m.Strict
			return only && strings.Contains(got.output, "no package for this platform")
		}},
		{"No queries if the packages are on disk", func() bool {
			kept := m.Republished && m.Prior == "larder" && want.status == 0
			return got.status == 0 && (kept || m.HiddenAt != "" && want.status != 0 && m.Prior != "")
		}},
	}, want, got, m)
}

// dir is the mirror that programs work on.
func (m *mirrorTrial) dir(c *court) string { return c.path("mirror") }

// makePrior makes the mirror as programs find it.
func (m *mirrorTrial) makePrior(c *court) {
	c.lay("direct {}")
	c.mkdir("before")
	switch m.Prior {
	case "engine":
		c.engine(append(theirArgs(m.PriorPlatforms, "providers", "mirror"), c.path("before"))...)
	case "larder":
		args := []string{"mirror", "sync", c.path("before"), "--engine", string(c.Engine), "--cache", c.path("cold")}
		m.sync(c, c.path("before"), append(args, flagsFor("--platform=", m.PriorPlatforms)...)...)
	}
	if m.Damaged {
		archives, err := filepath.Glob(c.path("before", "*", "*", "*", "*.zip"))
		c.must(err)
		for _, name := range archives[:min(1, len(archives))] {
			data := sourcetest.ReadFile(c.t, name)
			data[len(data)/2] ^= 1
			c.must(os.WriteFile(name, data, 0o644))
		}
	}
	if m.JustArchives {
		c.must(filepath.WalkDir(c.path("before"), func(name string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(name) == ".json" && !strings.Contains(name, ".larder") {
				err = os.Remove(name)
			}
			return err
		}))
	}
}

// sync runs larder mirror sync for a mirror, and adds the h1: hashes of signed archives to its documents, as larder
// mirror index --hashes does. The recorded engines found them there. See docs/deviations.md: Hashes of archives in mirrors.
func (m *mirrorTrial) sync(c *court, dir string, args ...string) (output string, status int) {
	output, status = c.run(args...)
	documents, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*.json"))
	c.must(err)
	for _, name := range documents {
		doc, err := fsmirror.ParseDocument(filepath.Base(name), sourcetest.ReadFile(c.t, name))
		if err != nil || doc.Larder == nil {
			continue
		}
		for platform, a := range doc.Archives {
			at, err := url.PathUnescape(a.URL)
			c.must(err)
			is, zh, err := archive.Read(c.t.Context(), filepath.Join(filepath.Dir(name), filepath.FromSlash(at)))
			if err == nil && slices.Contains(a.Hashes, zh) {
				a.Hashes = sources.SortHashes([]sources.Hash{is.H1, is.ZipH1, zh})
				doc.Archives[platform] = a
			}
		}
		c.must(os.WriteFile(name, doc.Text(), 0o644))
	}
	return output, status
}

// restore makes the mirror what it was before.
func (m *mirrorTrial) restore(c *court) {
	c.remove(m.dir(c))
	c.must(os.CopyFS(m.dir(c), os.DirFS(c.path("before"))))
}

func (m *mirrorTrial) theirs(c *court) []string {
	args := theirArgs(c.Platforms, "providers", "mirror")
	if m.NoLockFile {
		args = append(args, "-lock-file=false")
	}
	return append(args, m.dir(c))
}

func (m *mirrorTrial) ours(c *court) []string {
	args := c.ourArgs("mirror", "sync", m.dir(c), "--cache", c.path("cache"))
	if m.NoLockFile {
		args = append(args, "--no-lock-file")
	}
	if m.Strict {
		args = append(args, "--require-platforms")
	}
	return args
}

// A shelfful is the contents of a mirror.
type shelfful struct {
	archives map[string]string                       // SHA-256 by path
	indexes  map[string][]string                     // versions, by directory
	versions map[string]map[string]documentedArchive // by path of the document, by platform
	others   map[string]string                       // SHA-256 of all else but records, by path
	faults   []string                                // wrong documents
}

type documentedArchive struct {
	Hashes []string `json:"hashes"`
	URL    string   `json:"url"`
}

// look reads the mirror.
func (m *mirrorTrial) look(c *court) shelfful {
	s := shelfful{archives: map[string]string{}, indexes: map[string][]string{}, others: map[string]string{}}
	s.versions = map[string]map[string]documentedArchive{}
	c.must(filepath.WalkDir(m.dir(c), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(m.dir(c), name)
		data, err := os.ReadFile(name)
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		switch {
		case strings.HasPrefix(rel, ".larder/evidence/"):
			s.others[rel] = sum
		case strings.HasPrefix(rel, ".larder/"):
		case path.Ext(rel) == ".zip":
			s.archives[rel] = sum
		case path.Base(rel) == "index.json":
			var doc struct{ Versions map[string]struct{} }
			if err := json.Unmarshal(data, &doc); err != nil {
				return err
			}
			s.indexes[path.Dir(rel)] = slices.Sorted(maps.Keys(doc.Versions))
		case path.Ext(rel) == ".json":
			var doc struct{ Archives map[string]documentedArchive }
			if err := json.Unmarshal(data, &doc); err != nil {
				return err
			}
			s.versions[rel] = doc.Archives
		default:
			s.others[rel] = sum
		}
		return err
	}))
	for rel, archives := range s.versions {
		for platform, a := range archives {
			if !m.truthful(c, rel, a) {
				s.faults = append(s.faults, fmt.Sprintf("%s says of %s what is not so: %v", rel, platform, a))
			}
		}
	}
	return s
}

// truthful reports whether a document's archive exists and has the listed hashes.
func (m *mirrorTrial) truthful(c *court, doc string, a documentedArchive) bool {
	relative, err := url.PathUnescape(a.URL)
	c.must(err)
	name := filepath.Join(m.dir(c), path.Dir(doc), filepath.FromSlash(relative))
	data, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	h1, err := dirhash.HashZip(name, dirhash.Hash1)
	if err != nil {
		return m.Damaged // its entry stays
	}
	actual := []string{h1, fmt.Sprintf("zh:%x", sha256.Sum256(data))}
	for _, r := range c.Releases {
		for _, p := range r.Platforms {
			if zh, _ := c.world.Hashes(r.Provider + "/" + r.Version + "/" + p); zh == actual[1] {
				actual = append(actual, r.h1(p)) // differs if there are directories
			}
		}
	}
	return !slices.ContainsFunc(a.Hashes, func(h string) bool { return !slices.Contains(actual, h) })
}

// compare compares the mirrors of both programs.
func (m *mirrorTrial) compare(c *court, want, got shelfful) []string {
	var all []string
	if !maps.Equal(want.archives, got.archives) {
		all = append(all, fmt.Sprintf("archives: %v\nwant: %v", got.archives, want.archives))
	}
	if !maps.EqualFunc(named(want.indexes), named(got.indexes), slices.Equal) {
		all = append(all, fmt.Sprintf("index.json: %v\nwant: %v", got.indexes, want.indexes))
	}
	for _, name := range slices.Sorted(maps.Keys(named(got.versions))) {
		if !slices.Equal(slices.Sorted(maps.Keys(want.versions[name])), slices.Sorted(maps.Keys(got.versions[name]))) {
			all = append(all, fmt.Sprintf("%s: %v\nwant: %v", name, got.versions[name], want.versions[name]))
			continue
		}
		for platform, w := range want.versions[name] {
			g := got.versions[name][platform]
			if w.URL != g.URL || !m.sameHashes(c, name, w, g) {
				all = append(all, fmt.Sprintf("%s: %s: %v\nwant: %v", name, platform, g, w))
			}
		}
	}
	return all
}

// named are the documents of a mirror that filesystem mirrors know: those of hosts by their
// names. See docs/deviations.md: Non-ASCII hosts in mirrors.
func named[V any](documents map[string]V) map[string]V {
	documents = maps.Clone(documents)
	maps.DeleteFunc(documents, func(name string, _ V) bool { return strings.HasPrefix(name, "xn--") })
	return documents
}

// sameHashes reports whether Larder states all that an engine states that is right, and the
// zh: and the h1: besides. See docs/deviations.md: Hashes of archives in mirrors.
func (m *mirrorTrial) sameHashes(c *court, doc string, want, got documentedArchive) bool {
	both := slices.ContainsFunc(got.Hashes, func(h string) bool { return sources.Hash(h).Scheme() == sources.ZH }) &&
		slices.ContainsFunc(got.Hashes, func(h string) bool { return sources.Hash(h).Scheme() == sources.H1 })
	more := slices.ContainsFunc(want.Hashes, func(h string) bool { return !slices.Contains(got.Hashes, h) })
	return both && (!more || c.Engine == sources.OpenTofu && !m.truthful(c, doc, want))
}

// followUp returns the problems of a mirror that Larder has made.
func (m *mirrorTrial) followUp(c *court, made shelfful) []string {
	var all []string
	if c.again() {
		verify := []string{"mirror", "verify", m.dir(c), "--engine", string(c.Engine), "--cache", c.path("cache")}
		if out, status := c.run(verify...); status != 0 && !m.Damaged {
			all = append(all, fmt.Sprintf("larder mirror verify, %d:\n%s", status, out))
		}
		c.world.Registry.Forget()
		out, status := m.sync(c, m.dir(c), m.ours(c)...)
		fetched := len(c.world.Registry.Requests(sourcetest.Archive))
		if status != 0 || !m.look(c).equal(made) || fetched > 0 {
			all = append(all, fmt.Sprintf("larder mirror sync again, %d:\n%s", status, out))
		}
	}
	all = append(all, m.install(c, `filesystem_mirror { path = "`+m.dir(c)+`" }`)...)
	c.world.Mirror.ServeDir(m.dir(c))
	all = append(all, m.install(c, `network_mirror { url = "`+c.world.Mirror.MirrorURL()+`" }`)...)

	c.configure("direct {}")
	_, _ = c.engine(m.theirs(c)...)
	if out, status := m.sync(c, m.dir(c), m.ours(c)...); status != 0 || !m.look(c).equal(made) {
		all = append(all, fmt.Sprintf("larder mirror sync after %s, %d:\n%s\n%v\nwas: %v",
			c.Engine, status, out, m.look(c), made))
	}
	return all
}

func (s shelfful) equal(t shelfful) bool {
	s.faults, t.faults = nil, nil
	return reflect.DeepEqual(s, t)
}

// install installs from the mirror with the engine.
func (m *mirrorTrial) install(c *court, method string) []string {
	if len(c.Platforms) > 0 && !slices.Contains(c.Platforms, ownPlatform) {
		return nil
	}
	c.lay(method)
	switch {
	case m.NoLockFile:
		c.remove(c.lockFile())
	case c.LockedBy != "" || m.twofold() || m.hasHash("wrong h1", "wrong zh", "other h1", "other zh"):
		c.write(c.lockFile(), regexp.MustCompile(`(?s)  hashes = \[.*?\]\n`).ReplaceAllString(c.lock, ""))
	}
	if out, status := c.engine("init", "-input=false", "-no-color"); status != 0 {
		return []string{fmt.Sprintf("%s init from %s, %d:\n%s", c.Engine, method, status, out)}
	}
	c.lay("direct {}")
	return nil
}
