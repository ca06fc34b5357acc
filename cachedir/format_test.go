package cachedir_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Records of format 2 had a verdict, which depended on the settings of the run that made them. What
// the evidence proves counts instead. A record never costs more than one hash.
func TestRecordsWithAVerdict(t *testing.T) {
	mirror := sources.Proof{Matched: true, Name: "widget.zip", Signers: []sources.Signer{{Fingerprint: "a key", From: sources.KeyFromMirror}}}
	for _, test := range []struct {
		verdict  string
		evidence bool
		prove    func(*sources.Signed, sources.Hash) (sources.Proof, error)
		want     sources.Verdict
	}{
		{"self-signed", true, nil, sources.SelfSigned},
		{"signed by a trusted key", true, func(*sources.Signed, sources.Hash) (sources.Proof, error) { return mirror, nil }, sources.MirrorEvidence},
		{"signed by HashiCorp", true, func(*sources.Signed, sources.Hash) (sources.Proof, error) { return mirror, errors.New("damaged") }, sources.HashOnly},
		{"self-signed", false, nil, sources.HashOnly},
		{"hash only", false, nil, sources.HashOnly},
		{"evidence from mirror", false, nil, sources.HashOnly}, // as it was called first
		{"unverified", false, nil, sources.Unverified},
	} {
		t.Run(test.verdict, func(t *testing.T) {
			root := t.TempDir()
			put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
			for _, kind := range []string{"package", "known"} {
				rewrite(t, root, strings.Replace(record(widget), "package", kind, 1), func(r map[string]any) {
					delete(r, "proof")
					r["format"], r["verdict"] = 2, test.verdict
					if !test.evidence {
						delete(r, "evidence")
					}
				})
			}
			d := open(t, root, cachedir.Options{Judge: sourcetest.Verdicts{OnProve: test.prove}})
			s, err := d.Get(t.Context(), widget)
			check(t, err)
			sourcetest.Expect(t, s.Report.Verdict == test.want && s.ZH != "", "got %q, want %q", s.Report.Verdict, test.want)
			if v := verify(t, d); test.prove == nil && len(v.Findings) > 0 {
				t.Errorf("found %v", v.Findings)
			}
		})
	}
}

// Records of earlier versions identify files by their device and inode only. They cost
// a hash, which finds changed files, and what was proved stays.
func TestRecordsWithoutIdentity(t *testing.T) {
	for name, changed := range map[string]bool{"unchanged": false, "changed": true} {
		for _, format := range []int{2, 3} {
			t.Run(fmt.Sprint(name, " ", format), func(t *testing.T) {
				root := t.TempDir()
				put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
				path := filepath.Join(root, filepath.FromSlash(widget.Path()), executable)
				info, err := os.Stat(path)
				check(t, err)
				rewrite(t, root, record(widget), func(r map[string]any) {
					r["format"], r["verdict"] = format, "self-signed"
					for _, f := range r["files"].([]any) {
						for _, name := range []string{"volume", "born", "changed"} {
							delete(f.(map[string]any), name)
						}
						f.(map[string]any)["device"] = 66304
					}
				})
				if changed {
					check(t, os.Chmod(path, 0o755))
					check(t, os.WriteFile(path, []byte("The provider"), 0o755))
					check(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
				}
				for range 2 {
					s, err := open(t, root, cachedir.Options{}).Get(t.Context(), widget)
					check(t, err)
					sourcetest.Expect(t, (s.H1 != widgetFiles.h1(t)) == changed && (s.ZH == "") == changed, "got %+v", s)
				}
			})
		}
	}
}

// rewrite changes a record and seals it again.
func rewrite(t *testing.T, root, path string, change func(map[string]any)) {
	t.Helper()
	about := strings.TrimPrefix(filepath.ToSlash(path), ".larder/")
	text, err := testKey.Open(about, sourcetest.ReadFile(t, filepath.Join(root, path)))
	check(t, err)
	var r map[string]any
	check(t, json.Unmarshal(text, &r))
	change(r)
	data, err := testKey.Seal(about, r)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, path), data, 0o644))
}
