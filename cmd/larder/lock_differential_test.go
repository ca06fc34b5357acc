package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A lockTrial is a trial of larder lock and providers lock.
type lockTrial struct {
	trial
	Source    string   // to lock from: registry, network, packed or unpacked
	States    []string // schemes of the hashes that the network mirror states
	Arguments []string // addresses
	Warm      bool     // the plugin cache has the newest packages
	HiddenAt  string   // a package that the source does not have
}

// TestLocksAsEnginesDo compares larder lock with providers lock of both engines. Both must
// return the same exit status and write the same lock file, except for docs/deviations.md.
// Then init of the engine, and Larder, must not change the lock file.
func TestLocksAsEnginesDo(t *testing.T) {
	t.Parallel()
	holdTrials(t, "lock", 200, 60, func(g *generator, c *trial) *lockTrial {
		l := &lockTrial{trial: *c, Source: one(g, "registry", "registry", "network", "network", "packed", "unpacked")}
		l.States = one(g, []string{"h1", "zh"}, []string{"h1"}, []string{"zh"}, nil)
		if g.in(4) {
			address, _, _ := strings.Cut(one(g, c.Required...), " ")
			l.Arguments = []string{address}
			if short, ok := strings.CutPrefix(address, string(c.Engine.DefaultHost())+"/"); ok && g.in(2) {
				l.Arguments = append(l.Arguments, short)
			}
		}
		l.Warm = g.in(3)
		if g.in(12) {
			r := one(g, c.Releases...)
			l.HiddenAt = r.Provider + "/" + r.Version + "/" + one(g, r.Platforms...)
		}
		return l
	})
}

func (l *lockTrial) hold(c *court) {
	c.arrangeLock()
	c.world.Mirror.Fault(sourcetest.Fault{Path: "*.json", Edit: l.editHashes})
	from := c.place(l.Source)
	if l.Warm {
		c.lay("direct {}")
		c.run(c.ourArgs("prefetch", "--no-lock-file", "--cache", c.path("cache"))...)
	}
	if l.HiddenAt != "" {
		c.world.Registry.Hide(l.HiddenAt)
		c.world.Mirror.Hide(l.HiddenAt)
	}
	var want, got outcome
	c.lay(from.method)
	args := slices.Concat(theirArgs(c.Platforms, "providers", "lock"), from.flags, l.Arguments)
	want.output, want.status = c.engine(args...)
	theirs := c.read(c.lockFile())
	c.lay(from.method)
	got.output, got.status = c.run(append(c.ourArgs("lock", "--cache", c.path("cache")), l.Arguments...)...)
	ours := c.read(c.lockFile())
	want.lock, got.lock = theirs, ours

	var differences []string
	if (want.status == 0) != (got.status == 0) {
		differences = append(differences, fmt.Sprintf("exit status %d, want %d", got.status, want.status))
	}
	if ours != theirs {
		differences = append(differences, fmt.Sprintf("lock file, was:\n%s\nis:\n%s\nwant:\n%s", c.lock, ours, theirs))
	}
	var after []string
	if got.status == 0 {
		after = append(after, l.followUp(c, ours)...)
	}
	if want.status == 0 && len(differences) == 0 && len(after) == 0 {
		after = append(after, l.check(c, from, theirs)...)
	}
	if len(after) > 0 && !l.twofold() && c.judge.complete() {
		c.t.Errorf("%s\n%s", strings.Join(after, "\n"), inFull(l)) // not explained by a deviation
	}
	differences = append(differences, after...)
	c.settle(differences, l.excuses(c, want, got), want, got, l)
}

// excuses are the intended differences.
func (l *lockTrial) excuses(c *court, want, got outcome) []excuse {
	ours, theirs, both := got.lock, want.lock, want.status == 0 && got.status == 0
	return []excuse{
		{"Packages that don't match the lock file", func() bool {
			return want.status == 0 && strings.Contains(got.output, "but the dependency lock file has") && l.otherArchives(c)
		}},
		{"Expired keys", func() bool { return (want.status == 0) != (got.status == 0) && l.signedBy("expired key") }},
		{"Complete lock files aren't rewritten", func() bool {
			return ours == c.lock && sortedHashes(ours) == sortedHashes(theirs) && c.LockForm == "unsorted"
		}},
		{"Comments in lock files stay", func() bool {
			bare := strings.NewReplacer("# the end\n\n", "", "# the end\n", "").Replace(ours)
			return c.LockForm == "commented" && theirs == bare
		}},
		{"Signed hashes from the cache", func() bool { return l.Warm && both && more(theirs, ours) }},
		{"No queries if the packages are on disk", func() bool {
			return l.Warm && l.HiddenAt != "" && want.status != 0 && got.status == 0
		}},
		{"Unusual names in archives", func() bool {
			stated := c.Engine == sources.OpenTofu && l.Source == "registry"
			same := ours == theirs || stated && withoutScheme("h1:", ours) == withoutScheme("h1:", theirs)
			return l.twofold() && same
		}},
	}
}

// otherArchives reports whether the lock file has hashes of archives whose platforms are
// unknown.
func (l *lockTrial) otherArchives(c *court) bool {
	return l.hasHash("wrong zh") || l.Source != "registry" && (l.hasHash("zh", "other zh") || c.LockedBy != "")
}

// withoutScheme returns a lock file without the hashes of a scheme.
func withoutScheme(scheme, lock string) string {
	return regexp.MustCompile(`(?m)^    "`+scheme+`.*\n`).ReplaceAllString(lock, "")
}

// sortedHashes returns a lock file with the hashes of each block sorted.
func sortedHashes(lock string) string {
	return hashLines.ReplaceAllStringFunc(lock, func(lines string) string {
		return strings.Join(slices.Sorted(strings.Lines(lines)), "")
	})
}

// editHashes removes from a mirror's document all hashes except those of the schemes that the
// mirror lists.
func (l *lockTrial) editHashes(b []byte) []byte {
	var doc struct {
		Archives map[string]struct {
			Hashes []string `json:"hashes"`
			URL    string   `json:"url"`
		} `json:"archives"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || doc.Archives == nil {
		return b
	}
	for platform, a := range doc.Archives {
		a.Hashes = slices.DeleteFunc(a.Hashes, func(h string) bool {
			return !slices.Contains(l.States, sources.Hash(h).Scheme())
		})
		doc.Archives[platform] = a
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // of maps and strings
	}
	return text
}

// followUp returns the changes that remain after Larder has locked. There should be none.
func (l *lockTrial) followUp(c *court, locked string) []string {
	var all []string
	if c.again() {
		args := append(c.ourArgs("lock", "--cache", c.path("cache")), l.Arguments...)
		if out, status := c.run(args...); status != 0 || c.read(c.lockFile()) != locked {
			all = append(all, fmt.Sprintf("larder lock again, %d:\n%s\nlock file:\n%s", status, out, c.read(c.lockFile())))
		}
	}
	if l.Arguments != nil || l.HiddenAt != "" || len(c.Platforms) > 0 && !slices.Contains(c.Platforms, ownPlatform) {
		return all // init needs more, or something else
	}
	c.remove("work/.terraform")
	out, status := c.engine("init", "-input=false", "-no-color", "-lockfile=readonly")
	if status != 0 || strings.Contains(unwrapped(out), "not updated") && !l.hasHash("unknown") {
		all = append(all, fmt.Sprintf("%s init, %d:\n%s", c.Engine, status, out))
	}
	return all
}

// check runs Larder's check on the engine's lock file, with an empty cache.
func (l *lockTrial) check(c *court, from origin, theirs string) []string {
	if l.hasHash("wrong h1", "wrong zh", "unknown") || c.LockForm == "unsorted" || l.HiddenAt != "" || !c.again() {
		return nil // nothing covers a hash of a removed package
	}
	c.lay(from.method)
	c.write(c.lockFile(), theirs)
	out, status := c.run(append(c.ourArgs("lock", "--check", "--cache", c.path("cold")), l.Arguments...)...)
	if status != 0 {
		return []string{fmt.Sprintf("larder lock --check of what %s has locked, %d:\n%s", c.Engine, status, out)}
	}
	return nil
}
