package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/site/sitetest"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

const typedAt = `
-- live/net/main.tf --
-- plain/x --
-- terraform.d/x --
-- list.tf --
-- usb.tar --
`

// What only paths can be is a path, and what has a version a provider. Otherwise, what exists decides.
func TestSeparate(t *testing.T) {
	for _, c := range []struct {
		args      string
		recursive bool
		want      string // paths, addresses
	}{
		{"./none ../x . /abs x/", false, "./none ../x . /abs x/ |"},
		{"live/net", false, "live/net |"}, {"live/net@1.0", false, "| live/net@1.0"},
		{"aws acme/aws", false, "| aws acme/aws"}, {"list.tf", false, "list.tf |"}, {"no.tf", false, "| no.tf"}, {"plain", true, "plain |"},
		{"plain", false, "plain is a directory without configuration, and may be meant as a provider; " +
			"write ./plain for the directory, or hashicorp/plain for the provider"},
		{"aws 1.2.0", false, "1.2.0: a version follows its provider after an @; write aws@1.2.0"},
	} {
		s, _ := sitetest.Open(t, typedAt, site.Options{Recursive: c.recursive})
		paths, addresses, err := Separate(s, strings.Fields(c.args))
		got := strings.TrimSpace(strings.Join(paths, " ") + " | " + strings.Join(addresses, " "))
		if err != nil {
			got = sitetest.Text(err)
		}
		sourcetest.Equal(t, got, c.want, c.args)
	}
}

// The target is the one argument that can be it, in any position.
func TestPick(t *testing.T) {
	target := Target{"larder sync", "a mirror", "./mirror", func(_ string, info os.FileInfo) bool { return info.IsDir() }}
	for args, want := range map[string]string{
		"plain aws": "plain | aws", "aws plain": "plain | aws", "./new a": "./new | a", "new acme/a": "new | acme/a",
		"": "larder sync needs a mirror",
		"acme/aws": "larder sync needs a mirror, and acme/aws may be a provider; " +
			"write ./acme/aws if it is a directory or file",
		"usb.tar": "usb.tar is a file, not a mirror; name a directory, which is created if it is missing",
		"aws@1.0": "larder sync needs a mirror besides aws@1.0",
		"plain live": "larder sync needs a mirror, which may be plain or live; " +
			"name root modules and lock files with --from",
		"nowhere widgets": "larder sync needs a mirror, which may be nowhere or widgets; " +
			"write ./nowhere for a path, and hashicorp/widgets for a provider",
	} {
		s, _ := sitetest.Open(t, typedAt, site.Options{})
		path, others, err := Pick(s, target, strings.Fields(args))
		got := path + " | " + strings.Join(others, " ")
		if err != nil {
			got = sitetest.Text(err)
		}
		sourcetest.Equal(t, got, want, args)
	}
}

// Without a terminal, a prune that would ask fails before it starts.
func TestPruneAsks(t *testing.T) {
	for _, c := range []struct{ yes, dryRun, fails bool }{{fails: true}, {yes: true}, {dryRun: true}} {
		s, _ := sitetest.Open(t, "", site.Options{DryRun: c.dryRun, Yes: c.yes})
		s.Output.JSON = true
		asks, err := Asks(s)
		sourcetest.Expect(t, (err != nil) == c.fails && asks == c.fails, "%v: %t, %v", c, asks, err)
		if !c.fails {
			yes, err := Confirmed(t.Context(), s.Output, asks, "Would remove")
			sourcetest.Expect(t, yes && err == nil, "%v: asked", c)
		}
	}
}

func outcome(t *testing.T, address, version string, how installer.How) installer.Outcome {
	id := sourcetest.PackageID(t, address, version, "linux_amd64")
	return installer.Outcome{Package: sources.Stored{ID: id}, How: how, Source: "registry", Size: 7}
}

// The tally counts root modules and providers; of those that were required, it distinguishes what failed from what was
// not installed because of that.
func TestInstallTally(t *testing.T) {
	const lock = "-- .terraform.lock.hcl --\nprovider \"example.test/acme/a\" { version = \"1.0.0\" }\n"
	s, _ := sitetest.Open(t, lock, site.Options{})
	before, ds := lockfile.Read(filepath.Join(s.WorkDir, lockfile.Name))
	sourcetest.Check(t, ds.Err())
	result := &installer.Result{Packages: []installer.Outcome{
		outcome(t, "example.test/acme/a", "1.1.0", installer.Fetched),
		outcome(t, "example.test/acme/b", "1.0.0", installer.WasInstalled),
	}}
	i := installed{result, before, 4, nil, false, nil}
	changes := i.changes()
	sourcetest.Expect(t, changes[0].Was.String() == "1.0.0" && !changes[0].Unchanged, "%+v", changes[0])
	sourcetest.Expect(t, changes[1].Was == sources.Version{} && changes[1].Unchanged, "%+v", changes[1])
	for _, p := range []string{"example.test/acme/a", "example.test/acme/c"} {
		result.Lock.Removed = append(result.Lock.Removed, sourcetest.Address(t, p))
	}
	sourcetest.Equal(t, fmt.Sprint(i.removed()), "[example.test/acme/a 1.0.0]")
	var tally installTally
	tally.fail()
	tally.add(s.Output, i)
	c := sourcetest.Address(t, "example.test/acme/c")
	i.err = errors.Join(errors.New("no place"), &sources.ProviderError{Provider: c, Err: sources.ErrNotFound})
	sourcetest.Equal(t, len(i.removed()), 0, "a failed run writes no lock file")
	tally.add(s.Output, i)
	tally.add(s.Output, installed{nil, before, 2, errors.New("no place"), false, nil})
	want := InstallSum{RootModules: 4, Changed: 1, FailedRoots: 3, Failed: 1, Omitted: 1 + 2, UpToDate: 2, Fetched: 2, Bytes: 14}
	sourcetest.Equal(t, fmt.Sprint(tally.InstallSum), fmt.Sprint(want))
}

// Several supplies list a package once, with all that want it, as the one that fetched it did.
func TestMerge(t *testing.T) {
	filled := func(version string, how installer.How, module string) installer.Filled {
		o := outcome(t, "example.test/acme/a", version, how)
		wants := []*installer.Want{{Modules: []string{module}}}
		return installer.Filled{Selected: installer.Selected{ID: o.Package.ID, Wants: wants}, Outcome: o}
	}
	merged := merge([][]installer.Filled{
		{filled("2.0.0", installer.FromStore, "a"), filled("1.0.0", "", "a")},
		{filled("2.0.0", installer.Fetched, "b"), filled("1.0.0", installer.FromStore, "b")},
		{filled("2.0.0", installer.FromStore, "c")},
	})
	var got []string
	for _, f := range merged {
		got = append(got, fmt.Sprint(f.ID.Version, " ", f.Outcome.How, " ", f.Modules()))
	}
	sourcetest.EqualSlices(t, got, []string{"1.0.0 from the cache [a b]", "2.0.0 fetched [a b c]"})
}

// A filling takes what lock files select, unless it upgrades, and for addresses what they say.
func TestWanted(t *testing.T) {
	const files = `
-- main.tf.json --
{"terraform": {"required_providers": {"a": {"source": "example.test/acme/a"}, "b": {"source": "example.test/acme/b"}}}}
-- .terraform.lock.hcl --
provider "example.test/acme/a" { version = "1.0.0" }
provider "example.test/acme/c" { version = "3.0.0" }
`
	for _, c := range []struct {
		args string
		opts site.Options
		keep bool
		want string
	}{
		{"", site.Options{}, false, "a 1.0.0, b"}, {"", site.Options{Upgrade: true}, false, "a, b"},
		{"", site.Options{}, true, "a 1.0.0, b, a 1.0.0, c 3.0.0"},
		{".terraform.lock.hcl", site.Options{}, false, "a 1.0.0, c 3.0.0"},
		{"main.tf.json", site.Options{}, false, "a, b"}, {"example.test/acme/x@~>1.0", site.Options{}, false, "x"},
		{". example.test/acme/x", site.Options{}, false, "x, a 1.0.0, b"},
		{".terraform.lock.hcl", site.Options{NoLockFile: true}, false, ".terraform.lock.hcl is a lock file, " +
			"which --no-lock-file ignores"},
		{"acme/x", site.Options{Recursive: true}, false, "if you name providers, --recursive also needs a directory; " +
			"add . for the root modules in and below the working directory"},
	} {
		s, stderr := sitetest.Open(t, files, c.opts)
		f := NewFilling(s, FillRequest{})
		f.Keeps = c.keep
		err := f.Take(strings.Fields(c.args))
		var got []string
		if err == nil {
			var supplies []*Supply
			supplies, err = f.Read(t.Context())
			for _, supply := range supplies {
				for _, w := range supply.Wants {
					text := w.Provider.Type
					if w.Locked.Version != (sources.Version{}) {
						text += " " + w.Locked.Version.String()
					}
					got = append(got, text)
				}
			}
		}
		sourcetest.Equal(t, strings.Join(got, ", ")+sitetest.Text(err), c.want, c.args)
		unlocked := c.args == "" && !c.opts.Upgrade || strings.HasPrefix(c.args, ". ")
		sourcetest.Equal(t, strings.Contains(stderr.String(), "does not lock example.test/acme/b"), unlocked, stderr)
	}
}

// Patterns name providers if they have no wildcard.
func TestPatternsOfPlaces(t *testing.T) {
	m, _ := sitetest.Root(t, "", site.Options{})
	patterns := sourcetest.Must(m.ReadPatterns([]string{"acme/a", "example.test/acme/b@1.*", "*/c"}))(t)
	providers := sourcetest.Must(named(m, patterns))(t)
	sourcetest.Equal(t, strings.Join(sources.Texts(providers), " "), "registry.terraform.io/acme/a example.test/acme/b")
	b := sourcetest.PackageID(t, "example.test/acme/b", "2.0.0", "linux_amd64")
	sourcetest.Expect(t, patterns[1].MatchesProvider(b.Provider), "the version counts for a provider")
	sourcetest.Expect(t, !patterns[1].Matches(b), "another version is selected")
}

// A package differs if its contents are not those of the lock file, and the hint says what replaces it.
func TestCompareInstalled(t *testing.T) {
	const hash = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	dir := t.TempDir()
	s, _ := sitetest.Open(t, "", site.Options{})
	good := lockfile.Entry{Hashes: []sources.Hash{hash}}
	notFound := fmt.Errorf("x: %w", sources.ErrNotFound)
	for _, c := range []struct {
		name    string
		stored  sources.Stored
		path    string
		err     error
		want    store.Kind
		command string
	}{
		{"missing", sources.Stored{}, filepath.Join(dir, "none"), notFound, notInstalled, "larder install"},
		{"another thing", sources.Stored{}, dir, notFound, store.Changed, "larder install --paranoid"},
		{"unreadable", sources.Stored{}, dir, os.ErrPermission, store.Unreadable, "larder install"},
		{"changed", sources.Stored{H1: hash, Differs: "h1:B"}, dir, nil, store.Changed, "larder install --paranoid"},
		{"other contents", sources.Stored{H1: "h1:B"}, dir, nil, store.Changed, "larder install --paranoid"},
		{"no program", sources.Stored{H1: hash, Dir: dir}, dir, nil, store.Changed, "larder install --paranoid"},
	} {
		kind, why := compareInstalled(c.stored, good, c.path, c.err)
		sourcetest.Equal(t, kind, c.want, c.name+": "+why)
		v := &Verifying{Site: s}
		v.add(c.stored, kind, nil)
		command, _, _ := strings.Cut(v.Hint(), " replaces packages")
		sourcetest.Equal(t, command, c.command, c.name)
	}
	sourcetest.Equal(t, (&Verifying{Site: s}).Hint(), "")
	locked := &Verifying{Site: s, upgrades: true, Sum: report.VerifySum{Problems: 1}}
	sourcetest.Expect(t, strings.HasPrefix(locked.Hint(), "larder install --upgrade replaces"), "%s", locked.Hint())
}
