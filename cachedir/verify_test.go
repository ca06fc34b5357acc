package cachedir_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func verify(t testing.TB, d *cachedir.Dir) *cachedir.Verification {
	t.Helper()
	return sourcetest.Must(d.Verify(context.Background(), cachedir.VerifyOptions{}))(t)
}

// repair repairs a cache without a source.
func repair(t testing.TB, d *cachedir.Dir, v *cachedir.Verification) []cachedir.Mending {
	t.Helper()
	return sourcetest.Must(d.Repair(context.Background(), v, func(context.Context, cachedir.Mending) error { return nil }))(t)
}

// vouching proves what delivery proves, by unchanged evidence.
var vouching = sourcetest.Verdicts{OnProve: func(s *sources.Signed, _ sources.Hash) (sources.Proof, error) {
	if string(s.Sums) != "sums\n" || string(s.Signature) != "signature" {
		return sources.Proof{}, errors.New("the signature is wrong")
	}
	return sourcetest.ByRegistryKey, nil
}}

// alter writes text at the beginning of a file, and resets its time. With a text of the file's size, its fingerprint stays.
func alter(t testing.TB, path, text string) {
	t.Helper()
	info := stat(t, path)
	f := sourcetest.Must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	_, err := f.WriteString(text)
	check(t, errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())))
}

// soon is when the file times have settled.
func soon() time.Time { return time.Now().Add(time.Minute) }

// changeEvidence changes the evidence in a file.
func changeEvidence(t *testing.T, file string, change func(*sources.Signed)) {
	var s sources.Signed
	check(t, json.Unmarshal(sourcetest.ReadFile(t, file), &s))
	change(&s)
	check(t, os.WriteFile(file, sourcetest.Must(json.Marshal(s))(t), 0o644))
}

func TestVerifyFinds(t *testing.T) {
	evidence := ".larder/evidence/example.test/acme/widget~1.2.0.json"
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, root, entry string)
		judge sourcetest.Verdicts
		want  []string
		fetch bool // whether the package can be fetched again after it was moved
		left  bool // whether the package stays because it cannot be replaced
		modes bool // whether files need execute permission
	}{
		{name: "nothing", spoil: func(*testing.T, string, string) {}, judge: vouching},
		{name: "one changed byte", spoil: func(t *testing.T, _, entry string) {
			alter(t, filepath.Join(entry, executable), "the Provider")
		}, want: []string{"changed package " + widget.Path()}, left: true},
		{name: "replaced", spoil: func(t *testing.T, _, entry string) {
			files{executable: "another provider"}.unpack(t, entry)
		}, want: []string{"changed package " + widget.Path()}, left: true},
		{name: "touched", spoil: func(t *testing.T, _, entry string) { age(t, filepath.Join(entry, executable)) }},
		{name: "never recorded", spoil: func(t *testing.T, root, _ string) {
			check(t, os.RemoveAll(filepath.Join(root, ".larder")))
		}},
		{name: "evidence missing", spoil: func(t *testing.T, root, _ string) {
			check(t, os.RemoveAll(filepath.Join(root, evidence)))
		}, judge: vouching, want: []string{"broken evidence " + widget.Path()}},
		{name: "evidence replaced", spoil: func(t *testing.T, root, _ string) {
			changeEvidence(t, filepath.Join(root, evidence), func(s *sources.Signed) { s.Sums = []byte("others") })
		}, judge: vouching, want: []string{"broken evidence " + widget.Path()}},
		{name: "signature wrong", spoil: func(t *testing.T, root, _ string) {
			changeEvidence(t, filepath.Join(root, evidence), func(s *sources.Signed) { s.Signature = []byte("forged") })
		}, judge: vouching, want: []string{"broken evidence " + widget.Path()}},
		{name: "signature by another key", spoil: func(*testing.T, string, string) {},
			judge: sourcetest.Verdicts{OnProve: func(*sources.Signed, sources.Hash) (sources.Proof, error) {
				return sources.Proof{Signers: []sources.Signer{{Fingerprint: "another"}}}, nil
			}}, want: []string{"broken evidence " + widget.Path()}},
		{name: "not executable", modes: true, spoil: func(t *testing.T, _, entry string) {
			check(t, os.Chmod(filepath.Join(entry, executable), 0o444))
		}, want: []string{"changed package " + widget.Path()}},
		{name: "not executable, never recorded", modes: true, spoil: func(t *testing.T, root, entry string) {
			check(t, errors.Join(os.RemoveAll(filepath.Join(root, ".larder")), os.Chmod(filepath.Join(entry, executable), 0o444)))
		}, want: []string{"changed package " + widget.Path()}},
		{name: "changed and not executable", spoil: func(t *testing.T, _, entry string) {
			alter(t, filepath.Join(entry, executable), "the Provider")
			check(t, os.Chmod(filepath.Join(entry, executable), 0o444))
		}, want: []string{"changed package " + widget.Path()}, left: true},
		{name: "executable missing", spoil: func(t *testing.T, _, entry string) {
			check(t, os.Remove(filepath.Join(entry, executable)))
		}, want: []string{"broken package " + widget.Path()}, fetch: true},
		{name: "link to nowhere", spoil: func(t *testing.T, _, entry string) {
			check(t, errors.Join(os.RemoveAll(entry), sourcetest.Symlink(t, "nowhere", entry)))
		}, want: []string{"dangling link " + widget.Path()}, fetch: true},
		{name: "foreign", spoil: func(t *testing.T, root, _ string) { files{"lost": "x"}.unpack(t, root) },
			want: []string{"foreign file lost"}},
		{name: "dangling", spoil: func(t *testing.T, root, _ string) {
			check(t, sourcetest.Symlink(t, "nowhere", filepath.Join(root, "dangling.test")))
		}, want: []string{"dangling link dangling.test"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.modes {
				sourcetest.SkipOnWindows(t, "files have no execute permission")
			}
			root, moved := t.TempDir(), []string(nil)
			s := put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
			test.spoil(t, root, s.Dir)
			d := open(t, root, cachedir.Options{Now: soon, Judge: test.judge, Warn: func(err error) {
				_, to, _ := strings.Cut(err.Error(), "; moved to ")
				moved = append(moved, to)
			}})
			v := verify(t, d)
			if got := found(v.Findings); !slices.Equal(got, test.want) {
				t.Fatalf("found %q, want %q", got, test.want)
			}
			sourcetest.Equal(t, v.Unknown == 1, test.name == "never recorded", "a package without a record")
			before := regular(t, root)
			mended := repair(t, d, v)
			fetch := slices.ContainsFunc(mended, cachedir.Mending.Fetch)
			sourcetest.Equal(t, fetch, test.fetch, "to be fetched again")
			for _, m := range mended {
				sourcetest.Expect(t, (m.Err != nil) == test.left, "%s: %v", m.Finding, m.Err)
				sourcetest.Expect(t, !m.Fetch() && !test.left || slices.Equal(m.Stored, []sources.Hash{s.H1, s.ZH}),
					"%s: stored as %q", m.Finding, m.Stored)
			}
			for _, to := range moved {
				sourcetest.Must(os.Lstat(to))(t)
			}
			left := verify(t, d).Findings
			sourcetest.EqualSlices(t, found(left), map[bool][]string{true: test.want}[test.left], "left")
			after := regular(t, root)
			for name, text := range before {
				if !strings.HasPrefix(name, ".larder/") && after[name] != text && after[".larder/quarantine/"+name] != text {
					t.Errorf("%s is lost", name)
				}
			}
			got, err := d.Get(context.Background(), widget)
			if (test.fetch || test.name == "changed and not executable") && errors.Is(err, sources.ErrNotFound) {
				return // nothing is lost: the file is in the quarantine
			}
			check(t, err)
			if test.left {
				sourcetest.Expect(t, got.Differs == s.H1, "the changed package is used: %+v", got)
				return
			}
			if got.H1 != s.H1 || len(mended) > 0 && mended[0].Do == cachedir.Lowered && (got.Report.Verdict != s.Report.Verdict || got.Signed != nil) {
				t.Errorf("it is %+v after having been %s", got, mended[0].Do)
			}
		})
	}
}

// regular is tree without symlinks.
func regular(t testing.TB, dir string) files {
	t.Helper()
	return read(t, dir, func(e os.DirEntry) bool { return e.Type().IsRegular() })
}

// Verifying or repairing a package does not count as using it.
func TestVerifyDoesNotCountAsUse(t *testing.T) {
	root := t.TempDir()
	d := open(t, root, cachedir.Options{})
	stock(t, d, "1.0.0")
	foreign := packageID("example.test/acme/widget", "2.0.0")
	dir := files{executable: "x"}.unpack(t, filepath.Join(root, filepath.FromSlash(foreign.Path())))
	then := time.Now().Add(-48 * time.Hour)
	check(t, os.Chtimes(dir, then, then))
	before := list(t, d, cachedir.ListOptions{}).Entries
	v := verify(t, d)
	sourcetest.Expect(t, len(v.Packages) == 2 && v.Unknown == 1 && v.Bytes == 100_001, "verified %+v", v)
	_ = repair(t, d, v)
	for i, e := range list(t, d, cachedir.ListOptions{}).Entries {
		sourcetest.Expect(t, e.Used.Equal(before[i].Used), "%s was last used %s, now %s", e.ID, before[i].Used, e.Used)
	}
}

// What is moved to a path in the quarantine takes the place of what was moved there before. If something else is in the way,
// it is not lost.
func TestQuarantineReplaces(t *testing.T) {
	root := t.TempDir()
	cell := filepath.Join(root, ".larder", "quarantine", filepath.FromSlash(widget.Path()))
	warned := ""
	d := open(t, root, cachedir.Options{Warn: func(err error) { warned += err.Error() }})
	for range 2 {
		s := put(t, d, widget, widgetFiles)
		check(t, os.Remove(filepath.Join(s.Dir, executable)))
		repair(t, d, verify(t, d))
		sourcetest.Equal(t, len(regular(t, cell)), len(widgetFiles)-1, "files in the quarantine")
	}
	sourcetest.Equal(t, strings.Count(warned, "; moved to "+cell), 2, "warnings")
	host := filepath.Join(root, ".larder", "quarantine", "example.test")
	check(t, errors.Join(os.RemoveAll(host), os.WriteFile(host, []byte("a file"), 0o644)))
	s := put(t, d, widget, widgetFiles)
	check(t, os.Remove(filepath.Join(s.Dir, executable)))
	mended := repair(t, d, verify(t, d))
	sourcetest.Expect(t, len(mended) == 1 && mended[0].Err != nil, "mended %+v", mended)
	_, rescued, _ := strings.Cut(mended[0].Err.Error(), root)
	sourcetest.Expect(t, rescued != "", "it is in %v", mended[0].Err)
}
