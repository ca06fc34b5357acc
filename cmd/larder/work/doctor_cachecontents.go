package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
)

// unrecorded is why a record key matters.
const unrecorded = "Larder accepts no records of earlier runs, so every run hashes all packages again"

// checkRecordKey examines the key that authenticates this user's records, and the directory of the key.
func checkRecordKey(_ context.Context, c *checkup) (found []report.Diagnosis) {
	dir := c.config.StateDir
	d := report.Diagnosis{Severity: report.Risky, Trap: "record-key", Why: unrecorded}
	err := c.keyFault()
	if c.config.RecordKey != "" {
		if err == nil {
			return nil
		}
		d.Severity, d.Text, d.Why = report.Broken, fmt.Sprintf("LARDER_RECORD_KEY: %v", err), "commands that use the plugin cache fail"
		d.Fix = `export LARDER_RECORD_KEY="$(openssl rand -hex 32)"`
		return []report.Diagnosis{d}
	}
	if dir == "" {
		d.Trap, d.Text, d.Fix = "state-dir", "no directory for Larder's state is known", "set HOME or XDG_STATE_HOME"
		return []report.Diagnosis{d}
	}
	if d := c.stateDirTrap(dir); d != nil {
		found = append(found, *d)
	}
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		d.Path = filepath.Join(dir, "record.key")
		d.Text, d.Fix = err.Error(), "rm "+shellQuoted(d.Path)
		if info, err := os.Stat(d.Path); err == nil && disk.Owner(d.Path) == "" && info.Mode().Perm()&0o077 != 0 {
			d.Fix = "chmod 600 " + shellQuoted(d.Path)
		} else if errors.Is(err, fs.ErrPermission) {
			d.Fix = "check it with: ls -ld " + shellQuoted(d.Path)
		}
		found = append(found, d)
	}
	return found
}

// keyFault returns why the key that authenticates records can't be used, or nil.
func (c *checkup) keyFault() error {
	if secret := c.config.RecordKey; secret != "" {
		_, err := seal.ParseKey(secret)
		return err
	}
	return seal.UserKey(c.config.StateDir).Check()
}

// stateDirTrap returns why this user can't write to Larder's state directory, or why others can, or nil.
func (c *checkup) stateDirTrap(dir string) *report.Diagnosis {
	at := disk.Existing(dir)
	info, err := os.Stat(at)
	if err != nil {
		return nil // the key can't be read either
	}
	d := &report.Diagnosis{Severity: report.Risky, Trap: "state-dir", Path: at, Why: unrecorded}
	writable, exchangeable := disk.WritableByAll(info)
	why, fix := c.refusal(dir, at)
	switch owner := disk.Owner(at); {
	case !info.IsDir():
		d.Text = fmt.Sprintf("Larder's state directory %s can't be created: %s is a file", c.brief(dir), c.brief(at))
		d.Fix = fmt.Sprintf("mv %s %s", shellQuoted(at), shellQuoted(at+".old"))
	case why != "":
		d.Text, d.Fix = fmt.Sprintf("Larder's state directory %s can't be written: %s", c.brief(dir), why), fix
	case at == dir && writable || exchangeable:
		d.Text = fmt.Sprintf("all users can write to %s, Larder's state directory", c.brief(at))
		d.Why = "they can exchange the key by which Larder recognizes its records"
		d.Fix = asOwner(at, "chmod o-w "+shellQuoted(at))
	case disk.OfOther(info):
		d.Text = fmt.Sprintf("%s owns %s, Larder's state directory", owner, c.brief(at))
		d.Why = "that user can exchange the key by which Larder recognizes its records"
		d.Fix = `sudo chown -R "$(id -un)" ` + shellQuoted(dir)
	default:
		return nil
	}
	return d
}

// checkCacheContents examines the packages and other files in the plugin cache, and then the free space.
func checkCacheContents(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	largest := int64(0)
	root := c.cacheRoot()
	if info, err := os.Stat(root); !c.flags.NoCache && err == nil && info.IsDir() {
		found, largest = c.cacheContents(ctx, root)
	}
	return append(found, c.lowSpace(largest)...)
}

// cacheContents returns the traps in a plugin cache, and the size of the largest package.
func (c *checkup) cacheContents(ctx context.Context, root string) (found []report.Diagnosis, largest int64) {
	failed := func(err error) []report.Diagnosis {
		fix := c.cacheCommand("verify")
		if hints := sources.Hints(err); len(hints) > 0 {
			fix = hints[0]
		}
		return []report.Diagnosis{{
			Severity: report.Broken, Trap: "cache-unusable", Path: root,
			Text: fmt.Sprintf("the plugin cache %s can't be used: %v", c.brief(root), err), Why: "Larder refuses it or continues without it", Fix: fix,
		}}
	}
	if err := checkCache(root); err != nil {
		return failed(err), 0
	}
	if c.config.RecordKey != "" && c.keyFault() != nil {
		return nil, 0 // reported already
	}
	// The check of the record key reports its problems. Opening the cache would report them again.
	_, _ = c.keys.get(c.config.StateDir, func() (seal.Key, error) { return seal.UserKey(c.config.StateDir), nil })
	cache, err := c.openCache(root, func(o *cachedir.Options) { o.ReadOnly, o.Warn = true, nil })
	if errors.Is(err, fs.ErrPermission) {
		return nil, 0 // reported as unusable
	}
	if err != nil {
		return failed(err), 0
	}
	k := &targetCache{rootModule: c.rootModule, path: root, cache: cache}
	use, err := k.use(ctx, nil)
	if errors.Is(err, fs.ErrPermission) {
		return nil, 0 // reported with the state directory
	}
	if err != nil {
		return failed(err), 0
	}
	plan, err := k.plan(ctx, cachedir.Policy{ListOptions: use})
	if err != nil {
		return failed(err), 0
	}
	for _, e := range plan.Listing.Entries {
		largest = max(largest, e.Size)
	}
	if err := cache.Lockless(); err != nil {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "no-locks", Path: root,
			Text: fmt.Sprintf("the file system of the plugin cache %s has no locks: %v", c.brief(root), err),
			Why:  "several processes may download the same package, and tofu init fails",
			Fix:  c.otherCache(root, "a directory on another file system"),
		})
	}
	found = append(found, c.brokenPackages(cache, plan.Listing)...)
	return append(found, c.leftovers(plan)...), largest
}

// strange are the kinds of findings that aren't about packages.
var strange = []cachedir.FindingKind{cachedir.Elsewhere, cachedir.NoDirectory, cachedir.Collision, cachedir.Stranger}

// brokenPackages returns the traps in the packages of a cache, one for all packages with the same trap.
func (c *checkup) brokenPackages(cache *cachedir.Dir, listing *cachedir.Listing) (found []report.Diagnosis) {
	repair := c.cacheCommand("repair")
	grouped := map[cachedir.FindingKind][]string{}
	var kinds []cachedir.FindingKind
	for _, f := range listing.Findings {
		if grouped[f.Kind] == nil {
			kinds = append(kinds, f.Kind)
		}
		grouped[f.Kind] = append(grouped[f.Kind], fmt.Sprintf("%s (%s)", f.Path, f.Text))
	}
	for _, kind := range kinds {
		names := grouped[kind]
		d := report.Diagnosis{
			Severity: report.Broken, Trap: "broken-package", Path: c.cacheRoot(), Fix: repair,
			Text: fmt.Sprintf("%s in the plugin cache: %s", ui.Count(len(names), string(kind)), ui.Some(names, 3)),
			Why:  "terraform and tofu may install it as it is, and fail; Larder downloads it again",
		}
		if slices.Contains(strange, kind) {
			d.Severity, d.Trap = report.Risky, "foreign-files"
			d.Why = "it isn't part of a plugin cache, and may stop engines and Larder from using a package; the repair sets it aside"
		}
		if kind == cachedir.Unreadable {
			d.Why, d.Fix = "Larder and engines can't use it, and larder cache prune refuses to run", "chmod -R u+rwX "+shellQuoted(c.cacheRoot())
		}
		found = append(found, d)
	}
	var stuck, foreign []string
	for _, e := range listing.Entries {
		condition := cache.Condition(e)
		if d := c.packageFault(e.ID, sources.Location{Dir: e.Dir}); d != nil && d.Trap == "empty-executable" {
			d.Fix = "rm -r " + shellQuoted(e.Dir)
			found = append(found, *d)
		}
		if condition.NotExecutable != nil {
			stuck = append(stuck, fmt.Sprintf("%s (%v)", c.output.Package(e.ID), condition.NotExecutable))
		}
		if condition.Foreign && c.keyFault() == nil { // otherwise the key is the cause
			foreign = append(foreign, c.output.Package(e.ID))
		}
	}
	if len(stuck) > 0 {
		found = append(found, report.Diagnosis{
			Severity: report.Broken, Trap: "not-executable", Path: c.cacheRoot(), Fix: repair,
			Text: fmt.Sprintf("%s in the plugin cache lost the execute permission: %s", ui.Count(len(stuck), "provider"), ui.Some(stuck, 3)),
			Why:  "engines fail to start it; backups and artifacts of CI systems often lose this permission",
		})
	}
	if len(foreign) > 0 {
		d := report.Diagnosis{
			Severity: report.Risky, Trap: "foreign-records", Path: c.cacheRoot(), Fix: repair,
			Text: fmt.Sprintf("another user or machine made the records of %d of %s in the plugin cache: %s",
				len(foreign), ui.Count(len(listing.Entries), "package"), ui.Some(foreign, 3)),
			Why: "Larder doesn't accept these records, so the next install hashes the packages; if a CI system restores this cache, set LARDER_RECORD_KEY to the same secret in all jobs",
		}
		if c.config.RecordKey != "" {
			d.Why = "Larder doesn't accept these records, so the next install hashes the packages; LARDER_RECORD_KEY is not the key with which they were made"
		}
		found = append(found, d)
	}
	return found
}

// leftovers returns what interrupted runs and repairs have left in a cache.
func (c *checkup) leftovers(plan *cachedir.Plan) (found []report.Diagnosis) {
	add := func(trap, what, state string, a cachedir.Amount, why, fix string) {
		if a.Count > 0 {
			text := fmt.Sprintf("%s %s in the plugin cache, %s", ui.Count(a.Count, what), state, ui.Size(a.Bytes))
			found = append(found, report.Diagnosis{Severity: report.Risky, Trap: trap, Text: text, Why: why, Fix: fix, Path: c.cacheRoot()})
		}
	}
	prune := "prune"
	if plan.Blocked != nil { // no root module is known, so a limit is necessary
		prune += " --older-than 30d"
	}
	u := plan.Usage
	add("interrupted-downloads", "download", "interrupted", u.Interrupted, "the next run that needs the package resumes it; after a day, larder cache prune removes it", c.again("install"))
	add("cache-leftovers", "download", "abandoned", u.Abandoned, "nothing uses it", c.cacheCommand(prune))
	add("cache-leftovers", "leftover", "from killed processes", u.Leftover, "nothing uses it", c.cacheCommand(prune))
	add("set-aside", "file", "set aside", u.Aside, "larder cache repair keeps damaged and changed files for you to examine", c.cacheCommand(prune+" --aside"))
	return found
}

// leastSpace is the free space, in bytes, that a large provider needs while it is downloaded and unpacked.
const leastSpace = 1 << 30

// lowSpace examines the free space of the file systems that installing uses. Largest is the size of the
// largest cached package.
func (c *checkup) lowSpace(largest int64) (found []report.Diagnosis) {
	type place struct{ what, dir, fix string }
	places := []place{
		{"plugin cache", c.cacheRoot(), c.cacheCommand("prune")},
		{"working directory", c.config.DataDir, "remove files there"},
		{"temporary directory", os.TempDir(), "remove files there, or set TMPDIR to a directory on another file system"},
	}
	if c.flags.NoCache || c.cacheRoot() == "" {
		places = places[1:]
	}
	var seen []disk.FileSystem
	for i, p := range places {
		at := disk.FileSystemOf(p.dir)
		free, known := disk.FreeSpace(disk.Existing(p.dir))
		if !known || free >= max(leastSpace, largest) || slices.ContainsFunc(seen, at.Same) {
			continue
		}
		seen = append(seen, at)
		what := []string{p.what}
		for _, other := range places[i+1:] {
			if disk.FileSystemOf(other.dir).Same(at) {
				what = append(what, other.what)
			}
		}
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "low-space", Path: at.Mount, Fix: p.fix,
			Text: fmt.Sprintf("only %s free on the file system %s, for the %s", ui.Size(free), at.Mount, ui.List("and", what)),
			Why:  fmt.Sprintf("downloading and unpacking a large provider needs up to %s", ui.Size(max(leastSpace, largest))),
		})
	}
	return found
}
