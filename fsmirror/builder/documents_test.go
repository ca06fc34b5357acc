package builder_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
)

func readText(t testing.TB, path string) string {
	t.Helper()
	return string(sourcetest.ReadFile(t, path))
}

// Both documents of a host that is not ASCII name the same evidence.
func TestDocumentsNameTheEvidence(t *testing.T) {
	_, dir := synced(t, builder.Options{}, abroad+"/1.0.0/linux_amd64", abroad+"/1.0.0/darwin_arm64")
	texts := map[string]bool{}
	for _, host := range []string{"испытание.test", "xn--80akhbyknj4f.test"} {
		text := readText(t, filepath.Join(dir, host, "acme/widget/1.0.0.json"))
		texts[text[strings.Index(text, `"larder"`):]] = true
	}
	sourcetest.Equal(t, len(texts), 1, "the documents differ", texts)
	for text := range texts {
		n := strings.Count(text, `"url": "../../../.larder/evidence/%D0%B8`)
		sourcetest.Expect(t, n == 1, "the evidence is named %d times: %s", n, text)
	}
	finds(t, dir, 4)
}

// Missing or broken evidence is not named.
func TestDocumentsWithoutEvidence(t *testing.T) {
	const id = widget + "/1.0.0/linux_amd64"
	for name, damage := range map[string]func(dir string) error{
		"gone":      os.RemoveAll,
		"no keys":   func(dir string) error { return os.Remove(filepath.Join(dir, "keys.json")) },
		"what keys": func(dir string) error { return os.WriteFile(filepath.Join(dir, "keys.json"), []byte("{"), 0o644) },
		"no file": func(dir string) error {
			os.Remove(filepath.Join(dir, "origin"))
			return os.Mkdir(filepath.Join(dir, "origin"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := synced(t, builder.Options{}, id)
			p := parseID(t, id)
			must(t, damage(filepath.Join(dir, filepath.FromSlash(evidence.Path(p.Provider, p.Version)))))
			b := open(t, dir, builder.Options{})
			changes, _, err := b.Index(t.Context(), false, false)
			must(t, err)
			text := readText(t, filepath.Join(dir, widget, "1.0.0.json"))
			sourcetest.Expect(t, len(changes) == 1 && !strings.Contains(text, "larder"), "%v: %s", changes, text)
		})
	}
}

// Documents name the evidence that a version has now, also for packages that were there before.
func TestEvidenceIsReplaced(t *testing.T) {
	const id = widget + "/1.0.0/linux_amd64"
	_, dir := synced(t, builder.Options{}, id)
	other := newDepot(t)
	p := parseID(t, id)
	other.stockWith(another, id, widget+"/1.0.0/darwin_arm64")
	b := open(t, dir, builder.Options{})
	sourcetest.Must(sourcetest.Put(t.Context(), b, p, other.delivery(p)))(t)
	two := widget + "/1.0.0/darwin_arm64"
	sourcetest.Must(sourcetest.Put(t.Context(), b, parseID(t, two), other.delivery(parseID(t, two))))(t)
	must(t, b.Finish(t.Context()))
	must(t, b.Close())

	// The same, with a package of the version that stays.
	before := readText(t, filepath.Join(dir, widget, "1.0.0.json"))
	b = open(t, dir, builder.Options{})
	data := sourcetest.ReadFile(t, other.archive(p))
	signed := *other.signed(p)
	signed.Origin = "https://elsewhere.test/SHA256SUMS"
	del := deliver(append(data, 0), &signed)
	sourcetest.Must(sourcetest.Put(t.Context(), b, p, del))(t)
	must(t, b.Finish(t.Context()))
	after := readText(t, filepath.Join(dir, widget, "1.0.0.json"))
	sourcetest.Expect(t, strings.Contains(after, `"origin"`) && after != before, "it says %s", after)
	finds(t, dir, 2)
}

var errWorse = errors.New("worse")

// firstStays keeps the existing evidence.
func firstStays(kept, _ *sources.Signed) (*sources.Signed, error) {
	return kept, errWorse
}

// The builder warns about new evidence that is not kept, unless the existing evidence does not
// verify the package: no client could then install it.
func TestMergedEvidence(t *testing.T) {
	const id = "example.test/acme/widget/1.0.0/linux_amd64"
	d := newDepot(t, id)
	arm := parseID(t, "example.test/acme/widget/1.0.0/linux_arm64")
	amd := parseID(t, id)
	dir := t.TempDir()
	var warnings []string
	opts := builder.Options{
		Judge: sourcetest.Verdicts{OnProve: judge.OnProve, OnMerge: firstStays},
		Warn:  func(err error) { warnings = append(warnings, err.Error()) },
	}
	d.sync(dir, opts, id)
	before := *d.signed(amd)

	m := open(t, dir, opts)
	other := *d.signed(amd)
	other.Signature = []byte("another signature, of another key")
	del := d.delivery(amd)
	del.Accept = func(sources.Stored) bool { return true }
	del.Improve = func(sources.Stored) (*sources.Signed, sources.Proof) { return &other, sourcetest.ByRegistryKey }
	s, err := sourcetest.Put(context.Background(), m, amd, del)
	if err != nil || s.Signed == nil || string(s.Signed.Signature) != string(before.Signature) || s.Report.Verdict != sources.SelfSigned {
		t.Errorf("got %+v, %v", s, err)
	}
	sourcetest.Expect(t, len(warnings) == 1 && warnings[0] == "example.test/acme/widget 1.0.0: worse", "warnings: %q", warnings)

	d.stock(arm.Path())
	_, err = sourcetest.Put(context.Background(), m, arm, d.delivery(arm))
	var refused *store.ReplacedError
	if !errors.As(err, &refused) || !errors.Is(err, errWorse) || !strings.Contains(err.Error(), "not listed") || len(sources.Hints(err)) == 0 {
		t.Errorf("got %v", err)
	}
	must(t, m.Close())
}

// Only the records contain which keys a registry listed.
func TestListedKeys(t *testing.T) {
	id := parseID(t, "example.test/acme/widget/1.0.0/linux_amd64")
	d := newDepot(t, id.Path())
	dir := t.TempDir()
	m := open(t, dir, builder.Options{})
	signed := d.signed(id)
	signed.Keys[0] = signed.Keys[0].AsListed(true)
	data := sourcetest.Must(os.ReadFile(d.archive(id)))(t)
	sourcetest.Must(sourcetest.Put(context.Background(), m, id, deliver(data, signed)))(t)
	must(t, m.Finish(context.Background()))
	must(t, m.Close())

	m = open(t, dir, builder.Options{ReadOnly: true})
	s, err := m.Get(context.Background(), id)
	sourcetest.Expect(t, err == nil && s.Signed.Keys[0].Listed(), "got %v, %v", s, err)
	must(t, os.RemoveAll(filepath.Join(dir, ".larder/ledger")))
	m = open(t, dir, builder.Options{ReadOnly: true})
	kept, err := m.Evidence(id.Provider, id.Version)
	sourcetest.Expect(t, err == nil && !kept.Keys[0].Listed(), "got %v, %v", kept, err)
}

// Every mirror adds its downloads to those that stores share. An archive that stays in a
// mirror has no second link: removing one would invalidate its record.
func TestKeepsRecentDownloads(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   builder.Options
		linked bool
	}{
		{"packed", builder.Options{}, false},
		{"unpacked", builder.Options{Unpacked: true}, false},
		{"temporary", builder.Options{Temporary: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDepot(t, widget+"/1.0.0/linux_amd64")
			id := parseID(t, widget+"/1.0.0/linux_amd64")
			kept := sourcetest.Must(disk.Open(t.TempDir()))(t)
			defer kept.Close()
			c.opts.Archives = staging.ArchivesIn(kept, 1<<20)
			dir := t.TempDir()
			d.sync(dir, c.opts, widget+"/1.0.0/linux_amd64")

			zh, _ := d.world.Hashes(widget + "/1.0.0/linux_amd64")
			f := sourcetest.Must(c.opts.Archives.Find(t.Context(), sources.Hash(zh)))(t)
			info := sourcetest.Must(f.Stat())(t)
			must(t, f.Close())
			there, err := os.Stat(filepath.Join(dir, filepath.FromSlash(id.Provider.String()), id.Filename()))
			sourcetest.Expect(t, c.opts.Unpacked || err == nil, "%v", err)
			sourcetest.Equal(t, err == nil && os.SameFile(info, there), c.linked, "linked")
		})
	}
}

// A package that is in place needs no interrupted download, whether it is stored now
// or was before.
func TestPackagesInPlaceNeedNoDownload(t *testing.T) {
	for _, unpacked := range []bool{false, true} {
		d := newDepot(t, widget+"/1.0.0/linux_amd64")
		dir, opts := t.TempDir(), builder.Options{Unpacked: unpacked}
		partial := filepath.Join(dir, ".larder", "partial")
		for _, when := range []string{"now", "before"} {
			must(t, os.MkdirAll(partial, 0o755))
			for _, version := range []string{"1.0.0", "2.0.0"} {
				key := filepath.Join(partial, staging.Key(parseID(t, widget+"/"+version+"/linux_amd64")))
				must(t, os.WriteFile(key, nil, 0o644))
				must(t, os.WriteFile(key+".note", nil, 0o644))
			}
			d.sync(dir, opts, widget+"/1.0.0/linux_amd64")
			left, err := os.ReadDir(partial)
			sourcetest.Expect(t, err == nil && len(left) == 2, "%s: left %v, %v", when, left, err)
		}
	}
}
