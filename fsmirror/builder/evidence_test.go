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
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

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
	data, err := os.ReadFile(d.archive(id))
	must(t, err)
	_, err = sourcetest.Put(context.Background(), m, id, deliver(data, signed))
	must(t, err)
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
