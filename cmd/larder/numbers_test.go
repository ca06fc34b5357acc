package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// A shown is a line of JSON with the numbers that commands show about a cache or a mirror.
type shown struct {
	Type, Kind, Command                  string
	Packages, Problems, Leftovers, Count int
	Locked, Recent                       int
	Size, Prunable, Freed, Bytes         int64
	Provider, Version, Platform, Verdict string
	Roots                                any
}

func (s shown) id() string { return strings.Join([]string{s.Provider, s.Version, s.Platform}, " ") }

// shownBy is the output of a command, by type.
type shownBy map[string][]shown

func (o shownBy) total() shown { return o["summary"][0] }

// sum adds up a number of all lines of a type.
func (o shownBy) sum(of string, number func(shown) int64) (sum int64) {
	for _, s := range o[of] {
		sum += number(s)
	}
	return sum
}

// show runs larder COMMAND --json. Its exit status doesn't matter, but it ends with a summary.
func show(ts *testscript.TestScript, command ...string) shownBy {
	all := shownBy{}
	for row := range strings.Lines(string(runLarder(ts, append(command, "--json")...).Stdout)) {
		var s shown
		ts.Check(json.Unmarshal([]byte(row), &s))
		all[s.Type] = append(all[s.Type], s)
	}
	if len(all["summary"]) != 1 {
		ts.Fatalf("%v has %d summaries", command, len(all["summary"]))
	}
	return all
}

// numbers requires that all commands show the same numbers about the plugin cache, or about a
// mirror: numbers [FLAG...], numbers -mirror DIR, numbers -prune FLAG...
func numbers(ts *testscript.TestScript, _ bool, args []string) {
	switch {
	case len(args) == 2 && args[0] == "-mirror":
		mirrorNumbers(ts, args[1])
	case len(args) > 0 && args[0] == "-prune":
		pruneNumbers(ts, args[1:])
	default:
		cacheNumbers(ts, args)
	}
}

// same fails if a number has several values.
func same[N comparable](ts *testscript.TestScript, what string, all map[string]N) {
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names[1:] {
		if all[name] != all[names[0]] {
			ts.Fatalf("%s: %v", what, all)
		}
	}
}

func sizeShown(s shown) int64  { return s.Size }
func freedShown(s shown) int64 { return s.Freed }

func cacheNumbers(ts *testscript.TestScript, flags []string) {
	run := func(job ...string) shownBy { return show(ts, slices.Concat([]string{"cache"}, job, flags)...) }
	stats, list, prune := run("stats"), run("list"), run("prune", "--dry-run")
	verify := show(ts, append([]string{"cache", "verify"}, withoutRoots(flags)...)...)
	total := stats.total()
	same(ts, "packages", map[string]int{
		"stats": total.Packages, "list": list.total().Packages, "rows": len(list["cached"]),
		"verify": verify.total().Packages,
	})
	same(ts, "size", map[string]int64{
		"stats": total.Size, "list": list.total().Size, "rows": list.sum("cached", sizeShown),
		"providers": stats.sum("provider", sizeShown),
	})
	same(ts, "problems", map[string]int{
		"list": list.total().Problems, "verify": verify.total().Problems, "rows": len(verify["finding"]),
	})
	users := map[any]bool{}
	for _, row := range list["cached"] {
		for _, root := range row.Roots.([]any) {
			users[root] = true
		}
	}
	same(ts, "root modules", map[string]any{"stats": total.Roots, "list": float64(len(users))})
	verdicts := map[string]string{}
	for _, row := range list["cached"] {
		verdicts[row.id()] = row.Verdict
	}
	for _, row := range verify["verified"] {
		same(ts, row.id(), map[string]string{"list": verdicts[row.id()], "verify": row.Verdict})
	}
	same(ts, "pruned", map[string]int{"prune": prune.total().Packages, "rows": len(prune["removal"])})
	same(ts, "freed", map[string]int64{"stats": total.Prunable, "prune": prune.total().Freed})
}

// withoutRoots returns the flags without --roots, which some commands don't have.
func withoutRoots(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.HasPrefix(f, "--roots") })
}

// pruneNumbers removes what a dry run shows, and requires that the cache shrinks by that.
func pruneNumbers(ts *testscript.TestScript, flags []string) {
	run := func(job ...string) shownBy { return show(ts, slices.Concat([]string{"cache"}, job)...) }
	before, planned := run("stats"), run(append([]string{"prune", "--dry-run"}, flags...)...)
	pruned := run(append([]string{"prune", "--yes"}, flags...)...)
	after := run("stats")
	for _, number := range []func(shown) int64{
		freedShown, func(s shown) int64 { return int64(s.Packages) }, func(s shown) int64 { return int64(s.Leftovers) },
	} {
		same(ts, "planned and pruned", map[string]int64{"planned": number(planned.total()), "pruned": number(pruned.total())})
	}
	same(ts, "packages left", map[string]int{
		"stats": after.total().Packages, "pruned": before.total().Packages - pruned.total().Packages,
	})
	shrunk := before.total().Size - after.total().Size
	for kind, sign := range map[string]shownBy{"-": before, "+": after} {
		for _, u := range sign["usage"] {
			if u.Kind == "records" || u.Kind == "evidence" { // they belong to packages, and are not announced
				continue
			}
			if kind == "-" {
				shrunk += u.Bytes
			} else {
				shrunk -= u.Bytes
			}
		}
	}
	elsewhere := pruned.sum("removal", func(s shown) int64 { return s.Size - s.Freed }) // root modules have links to it
	same(ts, "freed", map[string]int64{"pruned": pruned.total().Freed, "shrunk": shrunk - elsewhere})
}

func mirrorNumbers(ts *testscript.TestScript, dir string) {
	list, verify := show(ts, "mirror", "list", dir), show(ts, "mirror", "verify", dir)
	prune := show(ts, "mirror", "prune", dir, "--keep-last", "1", "--dry-run")
	total := prune.total()
	same(ts, "packages", map[string]int{
		"list": list.total().Packages, "verify": verify.total().Packages,
		"prune": total.Packages + total.Locked + total.Recent,
	})
	same(ts, "freed", map[string]int64{"prune": total.Freed, "rows": prune.sum("removal", sizeShown)})
	same(ts, "size", map[string]string{"list": fmt.Sprint(list.total().Size), "verify": fmt.Sprint(verify.total().Bytes)})
}
