package cachedir_test

import (
	"bytes"
	"context"
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
	"github.com/larder-cli/larder/sources/store"
)

// A record is not valid if it was made with another key, is in another place, or was
// changed.
func TestForeignRecordsAreNotUsed(t *testing.T) {
	other := packageID("example.test/acme/other", "1.2.0")
	for name, c := range map[string]struct {
		opts  cachedir.Options
		spoil func(text string) string // the text of the records
	}{
		"another key":       {cachedir.Options{Records: store.Records{Key: key("another user's secret")}}, func(text string) string { return text }},
		"another package's": {cachedir.Options{}, func(text string) string { return strings.ReplaceAll(text, "/other", "/widget") }},
		"a changed proof":   {cachedir.Options{}, func(text string) string { return strings.ReplaceAll(text, `"registry"`, `"known"`) }},
	} {
		t.Run(name, func(t *testing.T) {
			root, d, _ := cached(t, cachedir.Options{})
			put(t, d, other, files{"terraform-provider-other_v1.2.0": "another provider"})
			for _, kind := range []string{"ledger", "known"} {
				at := filepath.Join(root, ".larder", kind, "all.json")
				check(t, os.WriteFile(at, []byte(c.spoil(string(sourcetest.ReadFile(t, at)))), 0o644))
			}
			s := get(t, open(t, root, c.opts), widget)
			if s.H1 != widgetFiles.h1(t) || s.ZH != "" || s.Report.Verdict != sources.Unverified || s.Signed != nil {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// A paranoid run hashes the files again, and loses nothing that was proved about the
// same contents.
func TestParanoidRunsKeepProofs(t *testing.T) {
	root, _, _ := cached(t, cachedir.Options{})
	for _, paranoid := range []bool{true, false} {
		s := get(t, open(t, root, cachedir.Options{Paranoid: paranoid, Now: soon}), widget)
		sourcetest.Expect(t, s.ZH != "" && s.Report.Verdict == sources.SelfSigned && s.Signed != nil,
			"paranoid %v: got %+v", paranoid, s)
	}
}

// Every command that finds damage treats it as damage, and none records it as intact.
func TestDamageIsNeverRecorded(t *testing.T) {
	for name, meet := range map[string]func(*testing.T, *cachedir.Dir){
		"get": func(t *testing.T, d *cachedir.Dir) {
			s := get(t, d, widget)
			sourcetest.Expect(t, s.Differs != "" && s.Report.Verdict == sources.Unverified, "got %+v", s)
		},
		"verify": func(t *testing.T, d *cachedir.Dir) { verify(t, d) },
		"repair without a source": func(t *testing.T, d *cachedir.Dir) {
			v := verify(t, d)
			sourcetest.Must(d.Repair(context.Background(), v, func(context.Context, cachedir.Mending) error {
				return errors.New("no network")
			}))(t)
		},
	} {
		for _, opts := range []cachedir.Options{{}, {ReadOnly: true}, {Paranoid: true}} {
			if opts.ReadOnly && name == "repair without a source" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				root, _, s := cached(t, cachedir.Options{})
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

// What only a bundle states about a package is not known: its author doesn't decide which packages are genuine.
func TestBundlesMakeNothingKnown(t *testing.T) {
	imported := func(f files) sourcetest.Supply {
		del := delivery(f.zip(t))
		fetch := del.Fetch
		del.Accept = func(sources.Stored) bool { return false }
		del.Fetch = func(ctx context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
			p, err := fetch(ctx, stage)
			return sourcetest.Supplied{Provenance: sources.Provenance{Bundled: true, Filename: p.Filename}}, err
		}
		del.Judge = func(sources.Contents) (sources.Proof, error) { return sources.Proof{Matched: true}, nil }
		return del
	}
	invented := files{executable: "an invention"}
	d := open(t, t.TempDir(), cachedir.Options{})
	deliver(t, d, widget, imported(invented))
	_, err := d.Recall(widget)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	genuine := delivery(widgetFiles.zip(t))
	genuine.Accept = func(sources.Stored) bool { return false }
	deliver(t, d, widget, genuine)
	for range 2 {
		if s, err := d.Recall(widget); err != nil || s.H1 != widgetFiles.h1(t) {
			t.Errorf("%+v, %v", s, err)
		}
		deliver(t, d, widget, imported(invented))
	}
}

// The linked package is the one that was verified.
func TestSwappedPackagesAreNotLinked(t *testing.T) {
	for _, mode := range []sources.LinkMode{sources.LinkAuto, sources.LinkHard, sources.LinkCopy, sources.LinkSymlink} {
		if mode == sources.LinkSymlink {
			sourcetest.RequireSymlinks(t)
		}
		_, d, s := cached(t, cachedir.Options{Link: mode})
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
	_, d, s := cached(t, cachedir.Options{Warn: func(err error) { warned += err.Error() }})
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
	mended = repair(t, d, verify(t, d)) // nothing is replaced
	sourcetest.Expect(t, len(mended) == 1 && mended[0].Do == cachedir.Nothing && mended[0].Err != nil, "got %+v", mended)
}

// signedDelivery is a delivery with the given evidence.
func signedDelivery(data []byte, signed *sources.Signed, from sources.KeyOrigin) sourcetest.Supply {
	del := delivery(data)
	fetch := del.Fetch
	del.Fetch = func(ctx context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
		parcel, err := fetch(ctx, stage)
		parcel.Signed = signed
		return parcel, err
	}
	del.Judge = func(sources.Contents) (sources.Proof, error) { return signedBy(from), nil }
	return del
}

// signedBy is the proof of a signature by a key of this origin.
func signedBy(from sources.KeyOrigin) sources.Proof {
	return sources.Proof{Name: "widget.zip", Signers: []sources.Signer{{Fingerprint: "the key", From: from}}}
}

func evidenceBy(sums, key string) *sources.Signed {
	return &sources.Signed{Sums: []byte(sums), Signature: []byte("by " + key), Keys: []sources.Key{{Armor: key}}}
}

// If the evidence for a version is merged or replaced, what the new evidence proves about
// a package counts. If it proves nothing, the facts in the record still hold, unless the
// key was revoked. The keys that a registry listed stay known.
func TestChangedEvidence(t *testing.T) {
	arm, amd := widget, widget
	amd.Platform = sources.Platform{OS: "linux", Arch: "amd64"}
	var warnings []error
	var refuse error
	opts := cachedir.Options{
		Warn: func(err error) { warnings = append(warnings, err) },
		Judge: sourcetest.Verdicts{
			OnMerge: func(kept, new *sources.Signed) (*sources.Signed, error) {
				sourcetest.Expect(t, kept.Keys[0].Listed(), "Merge isn't told that the registry listed the key")
				merged := *new
				merged.Keys = append(slices.Clone(new.Keys), kept.Keys...)
				return &merged, errors.New("worth a warning")
			},
			OnProve: func(s *sources.Signed, _ sources.Hash) (sources.Proof, error) {
				for _, k := range s.Keys {
					sourcetest.Expect(t, k.Listed() == (k.Armor == "registry"), "key %s: listed is %v", k.Armor, k.Listed())
				}
				return signedBy(sources.KeyFromRegistry), refuse
			},
		},
	}
	root := t.TempDir()
	d := open(t, root, opts)
	first := evidenceBy("sums", "registry")
	first.Keys[0] = first.Keys[0].AsListed(true)
	data := widgetFiles.zip(t)
	deliver(t, d, arm, signedDelivery(data, first, sources.KeyFromRegistry))
	deliver(t, d, amd, signedDelivery(data, evidenceBy("sums", "mirror"), sources.KeyFromMirror))
	sourcetest.Expect(t, len(warnings) == 1 && warnings[0].Error() == "example.test/acme/widget 1.2.0: worth a warning",
		"warnings: %v", warnings)
	for _, test := range []struct {
		refuse error
		want   sources.Verdict
	}{{nil, sources.SelfSigned}, {errors.New("damaged"), sources.SelfSigned}, {sources.ErrRevoked, sources.Unverified}} {
		refuse = test.refuse
		s := get(t, open(t, root, opts), arm)
		if (s.Signed != nil) != (refuse == nil) || s.Signed != nil && !bytes.Equal(s.Signed.Sums, first.Sums) || s.Report.Verdict != test.want {
			t.Errorf("%v: got %q, %v", refuse, s.Report.Verdict, s.Signed)
		}
	}
}

// clock returns options with a fixed time.
func clock(at time.Time) cachedir.Options {
	return cachedir.Options{Now: func() time.Time { return at }}
}

func TestMeasure(t *testing.T) {
	root, now := t.TempDir(), time.Now().UTC().Truncate(time.Second)
	d := open(t, root, clock(now))
	measured := deliver(t, d, widget, hashing(widgetFiles.zip(t)))
	if measured.H1 != widgetFiles.h1(t) || measured.ZH == "" || measured.Signed == nil || measured.Dir != "" || !measured.Since.Equal(now) {
		t.Errorf("measured %+v", measured)
	}
	nothingStaged(t, root)
	_, err := d.Get(context.Background(), widget)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound, "the cache has it")
	later := open(t, root, clock(now.Add(time.Hour)))
	recalled := recall(t, later, widget)
	if recalled.H1 != measured.H1 || recalled.ZH != measured.ZH || recalled.Signed == nil || !recalled.Since.Equal(now) {
		t.Errorf("recalled %+v", recalled)
	}
	again := hashing(nil)
	again.Fetch = func(context.Context, sources.Stage) (sourcetest.Supplied, error) {
		t.Error("fetched again")
		return sourcetest.Supplied{}, errors.New("no")
	}
	deliver(t, later, widget, again)
}

// The hashes of a package stay recorded with their evidence after the package was
// removed, until Forget.
func TestRecallAfterPruning(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	d := open(t, root, cachedir.Options{})
	stored := put(t, d, widget, widgetFiles)
	prune(t, d, plan(t, d, cachedir.Policy{}))
	_, err := d.Get(ctx, widget)
	sourcetest.Require(t, errors.Is(err, sources.ErrNotFound), "still there: %v", err)
	recalled := recall(t, d, widget)
	sourcetest.Expect(t, recalled.H1 == stored.H1 && recalled.ZH == stored.ZH && recalled.Signed != nil,
		"recalled %+v, stored %+v", recalled, stored)
	check(t, d.Forget(ctx, widget))
	_, err = d.Recall(widget)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound, "remembered")
	check(t, d.Forget(ctx, widget)) // nothing is recorded yet
}

// A package that its author works on changes legitimately, so its hashes are not
// recorded.
func TestUnverifiedLocalPackagesAreNotRecorded(t *testing.T) {
	for _, matched := range []bool{false, true} {
		d := open(t, t.TempDir(), cachedir.Options{})
		dir := widgetFiles.unpack(t, t.TempDir())
		from := unpacked(dir)
		from.Judge = func(sources.Contents) (sources.Proof, error) { return sources.Proof{Matched: matched}, nil }
		deliver(t, d, widget, from)
		_, err := d.Recall(widget)
		sourcetest.Expect(t, (err == nil) == matched, "matched %v: recalled with %v", matched, err)
	}
}

// unpacked delivers the unpacked package in dir, with a matching hash.
func unpacked(dir string) sourcetest.Supply {
	return sourcetest.Supply{
		Accept: func(sources.Stored) bool { return false },
		Fetch: func(context.Context, sources.Stage) (sourcetest.Supplied, error) {
			return sourcetest.Supplied{Payload: sources.Payload{Dir: dir}, Provenance: sources.Provenance{Origin: dir}}, nil
		},
		Judge: func(sources.Contents) (sources.Proof, error) { return sources.Proof{Matched: true}, nil },
	}
}

// Contents that match a verified archive get its verdict, from whatever source they
// come, and their record is kept.
func TestKnownContentsAreRecognized(t *testing.T) {
	d := open(t, t.TempDir(), cachedir.Options{})
	seen := put(t, d, widget, widgetFiles)
	stored := deliver(t, d, widget, unpacked(widgetFiles.unpack(t, t.TempDir())))
	if stored.Report.Verdict != sources.SelfSigned || stored.ZH != seen.ZH || stored.Signed == nil || stored.Since.IsZero() {
		t.Errorf("stored %+v", stored)
	}
	recalled := recall(t, d, widget)
	if recalled.Report.Verdict != sources.SelfSigned || recalled.ZH != seen.ZH || recalled.Origin != seen.Origin {
		t.Errorf("recalled %+v", recalled)
	}
	other := files{executable: "another provider"}
	stored = deliver(t, d, widget, unpacked(other.unpack(t, t.TempDir())))
	sourcetest.Expect(t, stored.Report.Verdict == sources.HashOnly && stored.ZH == "" && stored.Signed == nil,
		"stored another one as %+v", stored)
}

func TestRecorded(t *testing.T) {
	ctx, d := context.Background(), open(t, t.TempDir(), cachedir.Options{})
	remembered := func() []sources.Platform {
		return sourcetest.Must(d.Recorded(widget.Provider, widget.Version))(t)
	}
	all := remembered()
	sourcetest.Expect(t, len(all) == 0, "remembered %v", all)
	other := widget
	other.Platform = sources.Platform{OS: "darwin", Arch: "arm64"}
	put(t, d, widget, widgetFiles)
	deliver(t, d, other, hashing(widgetFiles.zip(t)))
	sourcetest.EqualSlices(t, remembered(), []sources.Platform{other.Platform, widget.Platform}, "remembered")
	check(t, d.Forget(ctx, widget))
	sourcetest.EqualSlices(t, remembered(), []sources.Platform{other.Platform}, "remembered")
}

// A directory that another user of a cache has put in place of the evidence doesn't keep a package from being
// installed.
func TestObstructedEvidence(t *testing.T) {
	if !sourcetest.HasModes {
		t.Skip("caches are not shared here")
	}
	root, warned := t.TempDir(), 0
	check(t, os.Chmod(root, 0o777))
	at := filepath.Join(root, ".larder", "evidence", "example.test", "acme", "widget~1.2.0.json")
	check(t, os.MkdirAll(filepath.Join(at, "x"), 0o755))
	d := open(t, root, cachedir.Options{Warn: func(error) { warned++ }})
	s := put(t, d, widget, widgetFiles)
	got := s.Report.Verdict
	sourcetest.Expect(t, got == sources.SelfSigned && warned == 1, "%s, %d warnings", got, warned)
}
