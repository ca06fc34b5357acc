package cachedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// A record is not valid if it was made with another key, is in another place, or was
// changed.
func TestForeignRecordsAreNotUsed(t *testing.T) {
	other := packageID("example.test/acme/other", "1.2.0")
	for name, spoil := range map[string]func(t *testing.T, root string) cachedir.Options{
		"another key": func(*testing.T, string) cachedir.Options {
			return cachedir.Options{Records: store.Records{Key: key("another user's secret")}}
		},
		"another package's": func(t *testing.T, root string) cachedir.Options {
			for _, kind := range []string{"ledger", "known"} {
				from := strings.Replace(record(other), "ledger", kind, 1)
				data := sourcetest.ReadFile(t, filepath.Join(root, from))
				check(t, os.WriteFile(filepath.Join(root, strings.Replace(record(widget), "ledger", kind, 1)), data, 0o644))
			}
			return cachedir.Options{}
		},
		"a changed proof": func(t *testing.T, root string) cachedir.Options {
			for _, kind := range []string{"ledger", "known"} {
				path := filepath.Join(root, strings.Replace(record(widget), "ledger", kind, 1))
				data := sourcetest.ReadFile(t, path)
				check(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(data), `"registry"`, `"known"`)), 0o644))
			}
			return cachedir.Options{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			d := open(t, root, cachedir.Options{})
			put(t, d, widget, widgetFiles)
			put(t, d, other, files{"terraform-provider-other_v1.2.0": "another provider"})
			s, err := open(t, root, spoil(t, root)).Get(context.Background(), widget)
			check(t, err)
			if s.H1 != widgetFiles.h1(t) || s.ZH != "" || s.Report.Verdict != sources.Unverified || s.Signed != nil {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// A paranoid run hashes the files again, and loses nothing that was proved about the
// same contents.
func TestParanoidRunsKeepProofs(t *testing.T) {
	root := t.TempDir()
	put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
	for _, paranoid := range []bool{true, false} {
		s, err := open(t, root, cachedir.Options{Paranoid: paranoid, Now: soon}).Get(context.Background(), widget)
		check(t, err)
		if s.ZH == "" || s.Report.Verdict != sources.SelfSigned || s.Signed == nil {
			t.Errorf("paranoid %v: got %+v", paranoid, s)
		}
	}
}

// Every command that finds damage treats it as damage, and none records it as intact.
func TestDamageIsNeverRecorded(t *testing.T) {
	for name, meet := range map[string]func(*testing.T, *cachedir.Dir){
		"get": func(t *testing.T, d *cachedir.Dir) {
			s, err := d.Get(context.Background(), widget)
			check(t, err)
			sourcetest.Expect(t, s.Differs != "" && s.Report.Verdict == sources.Unverified, "got %+v", s)
		},
		"verify": func(t *testing.T, d *cachedir.Dir) { verify(t, d) },
		"repair without a source": func(t *testing.T, d *cachedir.Dir) {
			v := verify(t, d)
			_, err := d.Repair(context.Background(), v, func(context.Context, cachedir.Mending) error {
				return errors.New("no network")
			})
			check(t, err)
		},
	} {
		for _, opts := range []cachedir.Options{{}, {ReadOnly: true}, {Paranoid: true}} {
			if opts.ReadOnly && name == "repair without a source" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				root := t.TempDir()
				s := put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
				alter(t, filepath.Join(s.Dir, executable), "The provider")
				age(t, filepath.Join(s.Dir, executable))
				for range 2 {
					meet(t, open(t, root, opts))
				}
				v := verify(t, open(t, root, cachedir.Options{}))
				if len(v.Findings) != 1 || v.Findings[0].Kind != store.Changed || len(v.Packages) != 0 {
					t.Fatalf("verified %v, found %v", v.Packages, v.Findings)
				}
				want := executable + " differs from what was verified on " + time.Now().UTC().Format(time.DateOnly)
				sourcetest.Equal(t, v.Findings[0].Text(), want)
			})
		}
	}
}

// Imported hashes are claims: verified hashes replace them, and they do not replace
// verified hashes.
func TestImportedHashesAreReplaced(t *testing.T) {
	imported := func(f files) sourcetest.Supply {
		del := delivery(f.zip(t))
		fetch := del.Fetch
		del.Accept = func(sources.Stored) bool { return false }
		del.Fetch = func(ctx context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
			p, err := fetch(ctx, stage)
			return sourcetest.Supplied{Provenance: sources.Provenance{Imported: true, Filename: p.Filename}}, err
		}
		del.Judge = func(sources.Contents) (sources.Proof, error) { return sources.Proof{Matched: true}, nil }
		return del
	}
	invented := files{executable: "an invention"}
	d := open(t, t.TempDir(), cachedir.Options{})
	_, err := sourcetest.Put(context.Background(), d, widget, imported(invented))
	check(t, err)
	s, err := d.Recall(widget)
	sourcetest.Expect(t, err == nil && s.Imported, "%+v, %v", s, err)
	genuine := delivery(widgetFiles.zip(t))
	genuine.Accept = func(sources.Stored) bool { return false }
	_, err = sourcetest.Put(context.Background(), d, widget, genuine)
	check(t, err)
	for range 2 {
		if s, err := d.Recall(widget); err != nil || s.Imported || s.H1 != widgetFiles.h1(t) {
			t.Errorf("%+v, %v", s, err)
		}
		_, err = sourcetest.Put(context.Background(), d, widget, imported(invented))
		check(t, err)
	}
}

// The linked package is the one that was verified.
func TestSwappedPackagesAreNotLinked(t *testing.T) {
	for _, mode := range []sources.LinkMode{sources.LinkAuto, sources.LinkHard, sources.LinkCopy, sources.LinkSymlink} {
		if mode == sources.LinkSymlink {
			sourcetest.RequireSymlinks(t)
		}
		d := open(t, t.TempDir(), cachedir.Options{Link: mode})
		s := put(t, d, widget, widgetFiles)
		check(t, os.RemoveAll(s.Dir))
		files{executable: "an evil one!", "LICENSE": widgetFiles["LICENSE"], "docs/README": widgetFiles["docs/README"]}.unpack(t, s.Dir)
		target := targetIn(t.TempDir())
		_, err := link(context.Background(), d, s, target)
		sourcetest.ErrorIs(t, err, sources.ErrSwapped, mode)
		_, err = os.Lstat(target)
		sourcetest.ErrorIs(t, err, os.ErrNotExist, mode, "it was linked")
	}
}

// Repair ignores the record of a package whose contents Verify found changed.
func TestRepairOfChangeWithSameFingerprint(t *testing.T) {
	sourcetest.SkipOnWindows(t, "every change changes the fingerprint")
	warned := ""
	d := open(t, t.TempDir(), cachedir.Options{Warn: func(err error) { warned += err.Error() }})
	s := put(t, d, widget, widgetFiles)
	alter(t, filepath.Join(s.Dir, executable), "evil program")
	v := verify(t, d)
	fetched := false
	mended, err := d.Repair(context.Background(), v, func(ctx context.Context, m cachedir.Mending) error {
		s, err := d.Get(ctx, *m.Package)
		sourcetest.Expect(t, err == nil && s.Differs != "", "the record was believed: %+v, %v", s, err)
		genuine := delivery(widgetFiles.zip(t))
		genuine.Accept = func(s sources.Stored) bool { return s.Differs == "" && s.ZH != "" }
		_, err = sourcetest.Put(ctx, d, *m.Package, genuine)
		fetched = true
		return err
	})
	check(t, err)
	sourcetest.Expect(t, len(mended) == 1 && mended[0].Do == cachedir.Replaced && fetched, "got %+v", mended)
	sourcetest.Expect(t, strings.Count(warned, "changed package: "+executable+" differs; moved to ") == 1, "warned %q", warned)
	s, err = d.Get(context.Background(), widget)
	sourcetest.Expect(t, err == nil && s.Differs == "" && s.H1 == widgetFiles.h1(t), "after repair: got %+v, %v", s, err)

	s = put(t, d, widget, widgetFiles)
	alter(t, filepath.Join(s.Dir, executable), "evil program")
	mended, err = d.Repair(context.Background(), verify(t, d), func(context.Context, cachedir.Mending) error {
		return nil // nothing was replaced
	})
	check(t, err)
	sourcetest.Expect(t, len(mended) == 1 && mended[0].Do == cachedir.Nothing && mended[0].Err != nil, "got %+v", mended)
}
