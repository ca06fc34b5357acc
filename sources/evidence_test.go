package sources_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/larder-cli/larder/sources"
)

func evidence() *sources.Signed {
	return &sources.Signed{
		Sums:      []byte("abc  terraform-provider-widget_1.0.0_linux_amd64.zip\n"),
		Signature: []byte{0xc2, 0, 0xff, '\n'},
		Keys:      []sources.Key{{Armor: "-----BEGIN\n", TrustSignature: "trusted"}, {Armor: "other"}},
		Origin:    "https://example.test/widget/SHA256SUMS",
	}
}

func TestEvidenceSurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er")
	for _, want := range []*sources.Signed{
		evidence(),
		{Sums: []byte("new"), Signature: []byte("sig"), Keys: []sources.Key{{Armor: "a"}}, Origin: "o"},
	} {
		if err := sources.WriteEvidence(dir, want); err != nil {
			t.Fatal(err)
		}
		got, err := sources.ReadEvidence(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 {
		t.Errorf("%d files are left, want 4: %v", len(entries), entries)
	}
}

func TestEvidenceThatIsThereIsNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	if err := sources.WriteEvidence(dir, evidence()); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sources.WriteEvidence(dir, evidence()); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("the same evidence was written twice")
	}
}

func TestNoEvidenceIsNotFound(t *testing.T) {
	dir := t.TempDir()
	if err := sources.WriteEvidence(dir, evidence()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, filepath.Join(dir, "absent")} {
		if _, err := sources.ReadEvidence(dir); !errors.Is(err, sources.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", dir, err)
		}
	}
}

func TestBrokenEvidenceIsAnError(t *testing.T) {
	huge := string(make([]byte, 5<<20))
	for _, tt := range []struct {
		name, file string
		contents   *string // nil to remove the file
	}{
		{"no signature", "SHA256SUMS.sig", nil},
		{"no keys", "keys.json", nil},
		{"no origin", "origin", nil},
		{"keys are no JSON", "keys.json", new("{")},
		{"keys are no list", "keys.json", new(`"key"`)},
		{"sums too large", "SHA256SUMS", &huge},
		{"keys too large", "keys.json", &huge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := sources.WriteEvidence(dir, evidence()); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, tt.file)
			err := os.Remove(path)
			if tt.contents != nil {
				err = os.WriteFile(path, []byte(*tt.contents), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sources.ReadEvidence(dir); err == nil || errors.Is(err, sources.ErrNotFound) {
				t.Errorf("got %v, want an error that is no answer", err)
			}
		})
	}
}
