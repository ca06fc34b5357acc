package builder_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Ledgers of format 2 had verdicts. What the evidence proves counts instead.
func TestLedgersWithVerdicts(t *testing.T) {
	const id = widget + "/1.0.0/linux_amd64"
	key, err := seal.ParseKey("the secret of this test, which is long")
	must(t, err)
	d, dir := newDepot(t, id), t.TempDir()
	d.sync(dir, builder.Options{Key: key}, id)
	path, about := filepath.Join(dir, ".larder/known", widget+".json"), "mirror "+widget
	text, err := key.Open(about, sourcetest.ReadFile(t, path))
	must(t, err)
	var ledger map[string]any
	must(t, json.Unmarshal(text, &ledger))
	ledger["format"] = 2
	for _, r := range ledger["packed"].(map[string]any) {
		delete(r.(map[string]any), "proof")
		r.(map[string]any)["verdict"] = "signed by a trusted key"
	}
	data, err := key.Seal(about, ledger)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o644))

	b := open(t, dir, builder.Options{Key: key, ReadOnly: true})
	s, err := b.Get(t.Context(), parseID(t, id))
	must(t, err)
	if s.Report.Verdict != sources.MirrorEvidence || !s.Proof.Matched || s.Signed == nil || s.Origin == "" {
		t.Errorf("got %+v", s)
	}
	v, err := b.Verify(t.Context(), nil)
	sourcetest.Expect(t, err == nil && len(v.Findings) == 0, "found %v, %v", v, err)
}
