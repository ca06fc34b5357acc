package builder_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// judge accepts any checksums that have a signature and contain the archive.
var judge = sourcetest.Verdicts{OnProve: func(s *sources.Signed, zh sources.Hash) (sources.Proof, error) {
	switch {
	case len(s.Signature) < 20:
		return sources.Proof{}, errors.New("bad signature")
	case !strings.Contains(string(s.Sums), strings.TrimPrefix(string(zh), "zh:")):
		return sources.Proof{}, errors.New("not listed")
	}
	return sourcetest.ByRegistryKey, nil
}}

func TestVerify(t *testing.T) {
	const (
		linux    = widget + "/terraform-provider-widget_1.0.0_linux_amd64.zip"
		darwin   = widget + "/terraform-provider-widget_1.0.0_darwin_arm64.zip"
		version  = widget + "/1.0.0.json"
		index    = widget + "/index.json"
		evidence = ".larder/evidence/" + widget + "/1.0.0/"
	)
	edit := func(name, before, after string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			data := sourcetest.ReadFile(t, filepath.Join(dir, name))
			sourcetest.Require(t, strings.Contains(string(data), before), "%s has no %s", name, before)
			write(t, filepath.Join(dir, name), strings.Replace(string(data), before, after, 1))
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, name))) }
	}
	put := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { write(t, filepath.Join(dir, name), text) }
	}
	ids := []string{widget + "/1.0.0/linux_amd64", widget + "/1.0.0/darwin_arm64", widget + "/2.0.0/linux_amd64"}
	d := newDepot(t, ids...)
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   []string // path and kind
	}{
		{"nothing", func(*testing.T, string) {}, nil},
		{"no records", remove(".larder/ledger"), nil},
		{"no evidence", remove(".larder"), []string{version + ": wrong index", widget + "/2.0.0.json: wrong index"}},
		{"unrelated files", put("src/app/pages/index.json", `{}`), nil},
		{"an archive with other contents", func(t *testing.T, dir string) {
			data := sourcetest.ReadFile(t, filepath.Join(dir, darwin))
			write(t, filepath.Join(dir, linux), string(data))
		}, []string{version + ": wrong index", version + ": wrong index", linux + ": changed package"}},
		{"a truncated archive", put(linux, "PK"), []string{linux + ": broken package"}},
		{"a missing archive", remove(linux), []string{version + ": missing package"}},
		{"a duplicate archive", func(t *testing.T, dir string) {
			data := sourcetest.ReadFile(t, filepath.Join(dir, linux))
			write(t, filepath.Join(dir, widget, "terraform-provider-widget_1.0.0_linux_amd64_old.zip"), string(data))
		}, []string{widget + "/terraform-provider-widget_1.0.0_linux_amd64_old.zip: duplicate"}},
		{"an archive in the wrong place", put(widget+"/1.0.0/x.zip", ""), []string{widget + "/1.0.0/x.zip: stray"}},
		{"a wrong hash", edit(version, `"h1:`, `"h1:x`), []string{version + ": wrong index"}},
		{"a hash with an unknown scheme", edit(version, `"h1:`, `"h9:`), nil},
		{"no hashes, as Terraform writes it", put(version, `{"archives":{"linux_amd64":{"url":"terraform-provider-widget_1.0.0_linux_amd64.zip"},"darwin_arm64":{"url":"terraform-provider-widget_1.0.0_darwin_arm64.zip"}}}`), []string{version + ": wrong index"}},
		{"evidence not named", edit(version, `"larder"`, `"lard"`), []string{version + ": wrong index"}},
		{"evidence named in another place", edit(version, `/1.0.0/"`, `/2.0.0/"`), []string{version + ": wrong index"}},
		{"evidence named with another checksum", edit(version, `"SHA256SUMS": "`, `"SHA256SUMS": "0`), []string{version + ": wrong index"}},
		{"evidence named by a member of the wrong type", edit(version, `"larder": {`, `"larder": [], "x": {`), []string{version + ": not in the index", version + ": not in the index", version + ": wrong index"}},
		{"a platform not named", edit(version, `"linux_amd64"`, `"plan9_amd64"`), []string{version + ": not in the index"}},
		{"a URL outside the mirror", edit(version, `"terraform-provider-widget_1.0.0_linux`, `"https://example.test/x_linux`), []string{version + ": wrong index"}},
		{"a path outside the mirror", edit(version, `"terraform-provider-widget_1.0.0_linux`, `"../../../../x_linux`), []string{version + ": wrong index"}},
		{"a URL of another file", edit(version, `"terraform-provider-widget_1.0.0_linux_amd64.zip`, `"index.json`), []string{version + ": wrong index"}},
		{"a version not named", put(index, `{"versions":{"2.0.0":{}}}`), []string{index + ": wrong index"}},
		{"a named version without document", put(index, `{"versions":{"1.0.0":{},"2.0.0":{},"3.0.0":{}}}`), []string{index + ": wrong index"}},
		{"no index.json", remove(index), []string{index + ": wrong index", index + ": wrong index"}},
		{"invalid index.json", put(index, `[]`), []string{index + ": wrong index", index + ": wrong index", index + ": wrong index"}},
		{"no VERSION.json", remove(version), []string{version + ": not in the index", version + ": not in the index", index + ": wrong index"}},
		{"invalid VERSION.json", put(version, `{`), []string{version + ": not in the index", version + ": not in the index", version + ": wrong index"}},
		{"an index without archives", put("example.test/acme/gone/index.json", `{"versions":{"1.0.0":{}}}`), []string{"example.test/acme/gone/index.json: wrong index"}},
		{"missing evidence", remove(evidence), []string{darwin + ": broken evidence", linux + ": broken evidence"}},
		{"truncated evidence", remove(evidence + "SHA256SUMS.sig"), []string{darwin + ": broken evidence", linux + ": broken evidence"}},
		{"a forged signature", put(evidence+"SHA256SUMS.sig", "forged"), []string{darwin + ": broken evidence", linux + ": broken evidence"}},
		{"other checksums", put(evidence+"SHA256SUMS", ""), []string{darwin + ": broken evidence", linux + ": broken evidence"}},
		{"a killed writer", put(".larder/unsettled", ""), []string{".larder/unsettled: unfinished"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			d.sync(dir, builder.Options{}, ids...)
			tt.damage(t, dir)
			before := stamps(t, dir)
			b := open(t, dir, builder.Options{ReadOnly: true})
			var last, of int64
			v := sourcetest.Must(b.Verify(t.Context(), func(done, total int64) { last, of = done, total }))(t)
			var got []string
			for _, f := range v.Findings {
				got = append(got, f.Path+": "+string(f.Kind))
				sourcetest.Expect(t, f.Text() != "" && strings.HasPrefix(f.Error(), f.Path), "%q tells nothing", f)
			}
			slices.Sort(got)
			sourcetest.EqualSlices(t, got, tt.want, v.Findings)
			sourcetest.Expect(t, last == of && last == v.Bytes, "%d of %d bytes were reported, of %d", last, of, v.Bytes)
			sourcetest.EqualSlices(t, before, stamps(t, dir), "files were changed")
		})
	}
}

// Mirrors made by other programs, and unpacked packages, have no findings.
func TestVerifyMirrorsOfOthers(t *testing.T) {
	d := newDepot(t, widget+"/1.0.0/linux_amd64", "example.test/acme/gadget/1.0.0/linux_amd64")
	packed, unpacked, bare := t.TempDir(), t.TempDir(), d.packed
	d.world.WritePacked(packed)
	for _, provider := range []string{widget, "example.test/acme/gadget"} {
		for _, file := range []string{provider + "/index.json", provider + "/1.0.0.json"} {
			answer := d.world.Ask(httptest.NewRequest(http.MethodGet, d.world.Mirror.MirrorURL()+file, nil))
			write(t, filepath.Join(packed, file), answer.Body.String())
		}
	}
	d.world.WriteUnpacked(unpacked)
	for _, dir := range []string{packed, unpacked, bare} {
		v, err := open(t, dir, builder.Options{ReadOnly: true}).Verify(t.Context(), nil)
		sourcetest.Expect(t, err == nil && len(v.Findings) == 0 && v.Packages == 2 && v.Unvouched == 2,
			"%s: %+v, %v", dir, v, err)
		_, err = os.Stat(filepath.Join(dir, ".larder"))
		sourcetest.ErrorIs(t, err, fs.ErrNotExist, "reading has made it a mirror of ours")
	}
	must(t, os.RemoveAll(filepath.Join(unpacked, widget, "1.0.0/linux_amd64/terraform-provider-widget_v1.0.0")))
	write(t, filepath.Join(unpacked, widget, "1.0.0/linux_amd64/README"), "")
	v, err := open(t, unpacked, builder.Options{ReadOnly: true}).Verify(t.Context(), nil)
	sourcetest.Expect(t, err == nil && len(v.Findings) == 1 && v.Findings[0].Kind == store.Broken,
		"without executable: %+v, %v", v, err)
}

func TestIndexDry(t *testing.T) {
	d := newDepot(t, widget+"/1.0.0/linux_amd64")
	write(t, filepath.Join(d.packed, widget, "0.9.0.json"), `{"archives":{}}`)
	write(t, filepath.Join(d.packed, widget, "terraform-provider-widget_2.0.0_linux_amd64.zip"), "junk")
	before := stamps(t, d.packed)
	changes, leftOut, err := open(t, d.packed, builder.Options{ReadOnly: true}).Index(t.Context(), false, true)
	must(t, err)
	want := []builder.Change{{Path: widget + "/1.0.0.json"}, {Path: widget + "/index.json"}, {Path: widget + "/0.9.0.json", Removed: true}}
	same := func(a, b builder.Change) bool { return a.Path == b.Path && a.Removed == b.Removed }
	sourcetest.Require(t, len(leftOut) == 1, "it would leave out %v", leftOut)
	_, changed := errors.AsType[*builder.ChangedError](leftOut[0])
	sourcetest.Expect(t, slices.EqualFunc(changes, want, same) && !changed, "it would do %v, and leave out %v", changes, leftOut)
	sourcetest.EqualSlices(t, before, stamps(t, d.packed), "files were changed")
}

func TestPrune(t *testing.T) {
	ids := []string{
		widget + "/1.0.0/linux_amd64", widget + "/1.0.0/darwin_arm64", widget + "/1.9.0/linux_amd64", widget + "/1.10.0/linux_amd64",
		"example.test/acme/gadget/1.0.0/linux_amd64",
	}
	d := newDepot(t, ids...)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	then := map[string]time.Duration{widget + "/1.10.0/linux_amd64": time.Hour}
	locked := func(some ...string) func(sources.PackageID) bool {
		return func(id sources.PackageID) bool {
			return slices.Contains(some, id.Provider.String()+"/"+id.Version.String())
		}
	}
	for _, tt := range []struct {
		name   string
		policy builder.Policy
		stays  []string // IDs
	}{
		{"nothing locked", builder.Policy{}, nil},
		{"locked", builder.Policy{Locked: locked(widget + "/1.0.0")}, ids[:2]},
		{"newest", builder.Policy{KeepLast: 1}, []string{ids[1], ids[3], ids[4]}},
		{"newest two", builder.Policy{KeepLast: 2}, ids[1:]},
		{"recent", builder.Policy{OlderThan: 24 * time.Hour}, []string{ids[3]}},
		{"one or the other", builder.Policy{OlderThan: 24 * time.Hour, Locked: locked("example.test/acme/gadget/1.0.0")}, ids[3:]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, id := range ids {
				age, ok := then[id]
				if !ok {
					age = 48 * time.Hour
				}
				d.sync(dir, builder.Options{Now: func() time.Time { return now.Add(-age) }}, id)
			}
			clock := builder.Options{Now: func() time.Time { return now }}
			b := open(t, dir, clock)
			plan := sourcetest.Must(b.PlanPrune(t.Context(), tt.policy))(t)
			gone := sourcetest.Must(b.Prune(t.Context(), plan))(t)
			sourcetest.Expect(t, len(gone)+len(tt.stays) == len(ids) && plan.Locked+plan.Recent == len(tt.stays),
				"%d are gone, %d locked, %d recent", len(gone), plan.Locked, plan.Recent)
			must(t, b.Close())
			entries := sourcetest.Must(open(t, dir, builder.Options{ReadOnly: true}).List(t.Context(), builder.ListOptions{}))(t)
			var left []string
			for _, e := range entries {
				left = append(left, e.ID.Path())
			}
			stays := slices.Sorted(slices.Values(tt.stays))
			slices.Sort(left)
			sourcetest.EqualSlices(t, left, stays, "left are")
			finds(t, dir, len(stays))
			clock.ReadOnly = true
			v, err := open(t, dir, clock).Verify(t.Context(), nil)
			sourcetest.Expect(t, err == nil && len(v.Findings) == 0 && v.Unvouched <= 0, "what is left: %+v, %v", v, err)
			if _, err := os.Stat(filepath.Join(dir, "example.test")); len(stays) == 0 && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("empty directories are left: %v", err)
			}
		})
	}
}

// Unpacked packages and those of hosts that are not ASCII are removed like others.
func TestPruneEverything(t *testing.T) {
	d, dir := newDepot(t, widget+"/1.0.0/linux_amd64", abroad+"/1.0.0/linux_amd64"), t.TempDir()
	d.sync(dir, builder.Options{Unpacked: true}, widget+"/1.0.0/linux_amd64")
	d.sync(dir, builder.Options{}, abroad+"/1.0.0/linux_amd64")
	b := open(t, dir, builder.Options{})
	plan := sourcetest.Must(b.PlanPrune(t.Context(), builder.Policy{}))(t)
	_, err := b.Prune(t.Context(), plan)
	must(t, errors.Join(err, b.Close()))
	entries, err := os.ReadDir(dir)
	sourcetest.Expect(t, err == nil && len(entries) == 1 && entries[0].Name() == ".larder", "left are %v, %v", entries, err)
	left, err := filepath.Glob(filepath.Join(dir, ".larder", "evidence", "*"))
	sourcetest.Expect(t, err == nil && len(left) == 0, "evidence is left: %v, %v", left, err)
}

// A bundle removes what any user has removed from a mirror, but nothing that only made space.
func TestRemovalsAreRecorded(t *testing.T) {
	ids := []string{widget + "/1.0.0/linux_amd64", widget + "/2.0.0/linux_amd64", widget + "/3.0.0/linux_amd64"}
	d, dir := synced(t, builder.Options{}, ids...)
	users := map[string]store.Records{"first": {Dir: t.TempDir()}, "second": {Dir: t.TempDir()}, "third": {Dir: t.TempDir()}}
	remove := func(text, user string, evicts bool) {
		b := open(t, dir, builder.Options{Records: users[user]})
		zh, _ := d.world.Hashes(text)
		archives := map[sources.PackageID]sources.Hash{parseID(t, text): sources.Hash(zh)}
		plan, others, err := b.PlanRemoval(t.Context(), archives)
		must(t, err)
		sourcetest.Expect(t, len(plan.Remove) == 1 && len(others) == 0, "%s: the plan is %+v, others %v", text, plan, others)
		plan.Evicts = evicts
		_, err = b.Prune(t.Context(), plan)
		must(t, errors.Join(err, b.Close()))
	}
	remove(ids[0], "first", false)
	remove(ids[1], "second", false)
	remove(ids[2], "first", true)
	for _, records := range users {
		b := open(t, dir, builder.Options{Records: records, ReadOnly: true})
		for i, text := range ids {
			zh, _ := d.world.Hashes(text)
			sourcetest.Equal(t, b.WasRemoved(parseID(t, text), sources.Hash(zh)), i < 2, text)
			other := sources.Hash("zh:" + strings.Repeat("0", 64))
			sourcetest.Equal(t, b.WasRemoved(parseID(t, text), other), false, text+" with other contents")
		}
	}
}
