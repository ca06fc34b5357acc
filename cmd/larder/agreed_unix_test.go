//go:build unix

package main

import (
	"regexp"
	"slices"
	"strings"
)

// installations compares what commands say about an installation before and after it.
func (h *hearing) installations() {
	check, verify := h.ask("check", "-R"), h.ask("verify", "-R")
	upgrade := h.ask("install", "-R", "--upgrade", "--dry-run")
	outdated := h.ask("outdated", "-R", "--verbose")
	dry := h.ask("install", "-R", "--dry-run")
	args := append([]string{"install", "--dry-run"}, h.Flags...)
	if h.Recursive {
		args = append(args, "-R")
	}
	h.says(dry, h.run(args...))
	h.allows(check, dry)
	h.explains(dry, upgrade)
	h.outdates(outdated, upgrade)
	h.diagnoses(check, verify, dry)
	real := h.ask("install", "-R")
	h.foretells(dry, real)
	h.repeats(real, h.ask("install", "-R"))
}

// says compares the last line of an installation with its summary in JSON.
func (h *hearing) says(js, text statement) {
	const family = "text and JSON"
	sameAnswer(h, family, "exit status", js.status, text.status)
	last := regexp.MustCompile(`(?m)^(Would install|\d+ root modules?:|\d+ providers? up to date).*$`)
	line := strings.Join(last.FindAllString(text.text, -1), "\n")
	roots, providers, both := strings.Cut(line, ". ")
	if !both && !strings.Contains(roots, "root module") {
		roots, providers = "", line
	}
	new := regexp.MustCompile(`Would install \d+ `).FindString(providers)
	sameAnswer(h, family, line+": new", numberIn(new, ""), js.number("from_cache", "fetched", "planned"))
	for words, member := range map[string]string{
		`(providers? )?up to date`: "up_to_date", `failed`: "failed", `not installed`: "not_installed", `to fetch`: "planned",
	} {
		sameAnswer(h, family, line+": "+words, numberIn(providers, words), js.number(member))
	}
	for words, member := range map[string]string{
		`root modules?`: "root_modules", `changed`: "root_modules_changed", `failed`: "root_modules_failed",
		`lock files? to update`: "lock_files_written",
	} {
		if h.Recursive {
			sameAnswer(h, family, line+": "+words, numberIn(roots, words), js.number(member))
		}
	}
}

// allows compares what check and install refuse because of the policy, and what both say about lock files.
func (h *hearing) allows(check, install statement) {
	const family = "check and install"
	found, failed := h.byRoot(check.of("finding")), h.byRoot(install.errors())
	unlocked := map[string]bool{} // check says nothing about versions that aren't locked
	for _, f := range check.of("finding", "kind", "no-lock-file") {
		for key := range h.byRoot([]saying{f}) {
			root, _, _ := strings.Cut(key, " ")
			unlocked[root] = true
		}
	}
	h.each(func(root, _, key string) {
		errs := slices.Concat(failed[""], failed[root], failed[key])
		rules := map[bool][]string{}
		for _, f := range found[key] {
			isRule := strings.HasPrefix(f.text("kind"), "policy-")
			rules[isRule] = append(rules[isRule], f.text("text"))
		}
		h.holds(family, len(errs) > 0 || rules[true] == nil, "%s: check: %q, install: nothing", key, rules[true])
		for _, e := range errs {
			refused := strings.Contains(e.text("text"), "the policy at ") && !strings.Contains(e.text("text"), "signature")
			quiet := len(found[key]) == 0 && !unlocked[root] && check.status != 1 && check.number("unchecked_providers") == 0
			h.holds(family, !refused || !quiet, "%s: install: %s, check: nothing", key, e.text("text"))
		}
	})
}

// explains compares explain and versions with each other and with install.
func (h *hearing) explains(dry, upgrade statement) {
	n := 0
	h.each(func(root, provider, key string) {
		if n++; n > 2 && *situations == "" {
			return
		}
		args := []string{provider}
		if h.Recursive {
			args = append(args, root)
		}
		versions := h.ask(append([]string{"versions", "--all"}, args...)...)
		explained := h.ask(append([]string{"explain"}, args...)...)
		for _, e := range explained.of("explanation") {
			h.explainsAs(versions, e, dry, "install", "chosen", key)
			h.explainsAs(versions, e, upgrade, "install_upgrade", "chosen_by_upgrade", key)
			newer, _ := e["newer"].([]any)
			for _, group := range newer {
				for _, version := range saying(group.(map[string]any)).list("versions") {
					for _, r := range versions.of("release", "version", version) {
						rule := saying(group.(map[string]any)).text("rule")
						ok := rule != "constraint" && rule != "policy" || r["allowed"] != true || r.text("excluded") != ""
						h.holds("versions", ok, "%s: %s is excluded by %s: %v", key, version, rule, r)
					}
				}
			}
		}
	})
}

// explainsAs compares an explanation with a run of install.
func (h *hearing) explainsAs(versions statement, explained saying, run statement, command, chosen, key string) {
	root, _, _ := strings.Cut(key, " ")
	failed, taken := h.byRoot(run.errors()), h.versionsOf(run)[key]
	errs := textsOf(slices.Concat(failed[""], failed[root], failed[key]))
	then, choice := explained.text(command), explained.text(chosen)
	fails := strings.Contains(then, "fail")
	unread := strings.Contains(h.Method, "filesystem") // explain reads no archive
	h.holds("explain", taken == "" || choice == taken, "%s: %s chooses %q, and takes %s", key, command, choice, taken)
	h.holds("explain", taken == "" || !fails || len(errs) > 0, "%s: %s %s, and takes %s", key, command, then, taken)
	h.holds("explain", taken != "" || len(errs) == 0 || fails || unread, "%s: %s %q, says %q", key, command, then, errs)
	if taken != "" && versions.status == 0 {
		rows := versions.of("release", "version", taken)
		ok := len(rows) == 1 && rows[0]["allowed"] == true && rows[0].text("excluded") == ""
		h.holds("versions", ok, "%s: %s takes %s: %v", key, command, taken, rows)
	}
}

// outdates compares outdated with an upgrade.
func (h *hearing) outdates(outdated, upgrade statement) {
	up, failed := h.versionsOf(upgrade), h.byRoot(upgrade.errors())
	for _, o := range outdated.of("outdated") {
		roots := o.list("root_modules")
		if roots == nil {
			roots = []string{h.Roots[0].Dir}
		}
		for _, root := range roots {
			key := root + " " + o.text("provider")
			if up[key] != "" {
				sameAnswer(h, "outdated", key+": allowed, and taken by an upgrade", o.text("allowed"), up[key])
				continue
			}
			why := strings.Join(textsOf(failed[key]), " ")
			// It verifies no signature. Offline, an upgrade takes only what is verified.
			other := strings.Contains(why, "signature") || strings.Contains(why, "--offline")
			refused := strings.Contains(why, "the policy at ") && !other
			h.holds("outdated", !refused || o.text("allowed") == "", "%s: allowed %s: %s", key, o.text("allowed"), why)
		}
	}
}

// diagnoses compares doctor with the commands whose errors it foretells.
func (h *hearing) diagnoses(check, verify, install statement) {
	root := h.Roots[0].Dir
	var about []string // the first root module
	for source, rows := range map[string][]saying{"error": install.errors(), "finding": verify.of("finding")} {
		for key, all := range h.byRoot(rows) {
			for _, r := range all {
				offline := strings.Contains(r.text("text"), "--offline")
				// An installation adds what is absent, and finds a conflict itself.
				kind := r.text("kind")
				absent := strings.HasPrefix(kind, "not ") && kind != "not allowed" || kind == "other version locked"
				if (key == root || strings.HasPrefix(key, root+" ") || key == "") && !offline && !absent {
					about = append(about, source+" "+r.text("text"))
				}
			}
		}
	}
	args := []string{"doctor"}
	if h.Recursive {
		args = append(args, "--chdir", root)
	}
	failures := slices.DeleteFunc(h.ask(args...).of("finding", "severity", "error"), func(f saying) bool {
		return f.text("area") == "plugin cache" || h.Cut // which the root module may not use
	})
	h.holds("doctor", len(about) == 0 || len(failures) > 0 || h.Cut, "no failure, but %q", about)
	content := check.status == 0 && verify.status == 0 && install.status == 0
	h.holds("doctor", !content || len(failures) == 0, "%v, but install, check and verify are content", textsOf(failures))
}

// foretells compares a dry run with an installation. It can't know what a download shows.
func (h *hearing) foretells(dry, real statement) {
	const family = "dry run"
	for _, e := range real.errors() {
		if strings.Contains(e.text("text"), "the package from https://") {
			return
		}
	}
	sameAnswer(h, family, "exit status", dry.status, real.status)
	sameAnswer(h, family, "errors", textsOf(dry.errors()), textsOf(real.errors()))
	sameAnswer(h, family, "packages", h.versionsOf(dry), h.versionsOf(real))
	h.sameNumbers(family, dry, real, "failed", "not_installed", "up_to_date", "root_modules", "root_modules_changed",
		"root_modules_failed")
	installed := []string{"from_cache", "fetched", "planned"}
	sameAnswer(h, family, "installed", dry.number(installed...), real.number(installed...))
	announced := map[string]saying{}
	for _, l := range dry.of("lock") {
		announced[l.text("file")] = l
	}
	for _, l := range real.of("lock") {
		before := announced[l.text("file")]
		sameAnswer(h, family, l.text("file")+": added", before.list("added"), l.list("added"))
		sameAnswer(h, family, l.text("file")+": removed", before.list("removed"), l.list("removed"))
		for _, p := range before.list("changed") {
			changed := l.list("changed")
			h.holds(family, slices.Contains(changed, p), "%s: would change %s, changed %v", l.text("file"), p, changed)
		}
		delete(announced, l.text("file"))
	}
	h.holds(family, len(announced) == 0, "would write %v", announced)
}

// repeats compares an installation with the next one, and with what commands say about its packages.
func (h *hearing) repeats(first, again statement) {
	const family = "second installation"
	sameAnswer(h, family, "exit status", again.status, first.status)
	if !strings.Contains(h.Policy, "min_age") { // ages were recorded meanwhile
		sameAnswer(h, family, "errors", textsOf(again.errors()), textsOf(first.errors()))
	}
	if first.status == 0 {
		changed := again.number("root_modules_changed", "from_cache", "fetched", "lock_files_written")
		sameAnswer(h, family, "changes", changed, 0)
	}
	verify := h.ask("verify", "-R")
	installed := map[string][]string{} // root modules with different lock files may have different results
	for _, p := range again.of("package") {
		installed[p.id()] = append(installed[p.id()], p.text("verdict")+p.text("key_id"))
	}
	for _, v := range verify.of("verified") {
		if all := installed[v.id()]; all != nil {
			word := v.text("verdict") + v.text("key_id")
			h.holds("verified", slices.Contains(all, word), "%s: %s, installed %v", v.id(), word, all)
		}
	}
	h.judgesOnce(verify)
	list, cache := h.ask("cache", "list"), h.ask("cache", "verify")
	h.judgesOnce(cache)
	for _, c := range append(list.of("cached"), cache.of("verified")...) {
		// The cache doesn't know lock files, whose hashes a package may match.
		byLock := c.text("verdict") == "unverified" && slices.Contains(installed[c.id()], "hash only")
		if all := installed[c.id()]; all != nil && c["changed"] == nil && !byLock {
			word := c.text("verdict") + c.text("key_id")
			h.holds("verified", slices.Contains(all, word), "%s: cached %s, installed %v", c.id(), word, all)
		}
	}
	if first.status == 0 {
		sameAnswer(h, family, "verify", verify.status, 0)
		h.diagnoses(h.ask("check", "-R"), verify, again)
	}
}

// judgesOnce requires that a package is verified or a problem, not both.
func (h *hearing) judgesOnce(s statement) {
	for _, f := range s.of("finding") {
		both := f.text("version") != "" && f.text("kind") == "not allowed" && slices.Contains(s.ids("verified"), f.id())
		h.holds("verified", !both, "%s: %s is verified and %s", s.command, f.id(), f.text("text"))
	}
}

// stores compares what commands say about lock files, the plugin cache and mirrors.
func (h *hearing) stores() {
	h.locks()
	h.caches()
	if h.Mirror != "" {
		h.mirrored(h.path("mirror"))
	}
	const family = "mirror"
	dir := h.path("new")
	dry, real := h.ask("mirror", "sync", dir, "-R", "--dry-run"), h.ask("mirror", "sync", dir, "-R")
	sameAnswer(h, family, "missing", dry.ids("missing"), real.ids("missing"))
	if !h.Cut { // which a dry run may not read
		sameAnswer(h, family, "exit status", dry.status, real.status)
		sameAnswer(h, family, "packages", dry.ids("package"), real.ids("package"))
		sameAnswer(h, family, "errors", textsOf(dry.errors()), textsOf(real.errors()))
		h.sameNumbers(family, dry, real, "failed", "missing")
		sameAnswer(h, family, "fetched", dry.number("planned"), real.number("fetched"))
	}
	h.mirrored(dir)
}

// locks compares check and lock --check, lock --dry-run and lock, and what all of these say afterwards.
func (h *hearing) locks() {
	const family = "lock"
	check, lockCheck := h.ask("check", "-R"), h.ask("lock", "--check", "-R")
	unchecked := check.number("unchecked_providers") > 0
	agreed := check.status != 0 || lockCheck.status == 0 || unchecked
	h.holds("lock check", agreed, "check: 0, lock --check: %d", lockCheck.status)
	var rules, others []string
	for _, f := range check.of("finding") {
		if kind := f.text("kind"); strings.HasPrefix(kind, "policy-") || kind == "unexpected-host" {
			rules = append(rules, kind)
		} else {
			others = append(others, kind)
		}
	}
	h.holds("lock check", len(others) == 0 || lockCheck.status != 0, "check: %v, lock --check: 0", others)
	silent := check.status != 1 && len(rules)+len(others) == 0
	h.holds("lock check", lockCheck.status != 3 || !silent, "check: nothing, lock --check: 3")

	dry, real := h.ask("lock", "--dry-run", "-R"), h.ask("lock", "-R")
	sameAnswer(h, family, "exit status", dry.status, real.status)
	sameAnswer(h, family, "errors", textsOf(dry.errors()), textsOf(real.errors()))
	h.sameNumbers(family, dry, real, "packages", "failed", "root_modules", "incomplete")
	changes := func(s statement) (all []string) {
		for _, c := range s.of("change") {
			to := append(c.list("added"), c.text("module"), c.id(), c.text("was"), c.text("constraints"))
			all = append(all, strings.Join(to, " "))
		}
		slices.Sort(all)
		return all
	}
	sameAnswer(h, family, "changes", changes(dry), changes(real))
	again := h.ask("lock", "--check", "-R")
	if real.status == 0 && again.number("unknown_hashes") == 0 { // which lock doesn't remove
		sameAnswer(h, family, "lock --check after lock", again.status, 0)
		for _, f := range h.ask("check", "-R").of("finding") {
			rule := strings.HasPrefix(f.text("kind"), "policy-") || f.text("kind") == "unexpected-host"
			h.holds(family, rule, "check after lock: %s", f.text("text"))
		}
	}
}

// caches compares the commands that show numbers of the plugin cache.
func (h *hearing) caches() {
	const family = "cache"
	stats, list, verify := h.ask("cache", "stats"), h.ask("cache", "list"), h.ask("cache", "verify")
	prune := h.ask("cache", "prune", "--dry-run")
	h.sameNumbers(family, stats, list, "packages", "size")
	sameAnswer(h, family, "packages of verify", verify.number("packages"), len(list.of("cached")))
	damage := slices.DeleteFunc(verify.of("finding"), func(f saying) bool {
		return strings.HasPrefix(f.text("kind"), "not ")
	})
	sameAnswer(h, family, "problems, without those of the policy", list.number("problems"), len(damage))
	sameAnswer(h, family, "freed", stats.number("prunable"), prune.number("freed"))
	sameAnswer(h, family, "pruned", len(prune.of("removal")), prune.number("packages"))
	words := map[string]string{}
	for _, c := range list.of("cached") {
		words[c.id()] = c.text("verdict")
	}
	for _, v := range verify.of("verified") {
		sameAnswer(h, "verified", v.id()+" in the cache", words[v.id()], v.text("verdict"))
	}
	h.judgesOnce(verify)
}

// mirrored compares the commands that show numbers of a mirror.
func (h *hearing) mirrored(dir string) {
	list, verify := h.ask("mirror", "list", dir), h.ask("mirror", "verify", dir)
	h.sameNumbers("mirror", list, verify, "packages")
	sameAnswer(h, "mirror", "rows", len(list.of("mirrored")), list.number("packages"))
	words := map[string]string{}
	for _, m := range list.of("mirrored") {
		words[m.id()] = m.text("verdict")
	}
	for _, v := range verify.of("verified") {
		if old := words[v.id()]; old != "unverified" { // without a record, its contents may be known
			sameAnswer(h, "verified", v.id()+" in "+dir, old, v.text("verdict"))
		}
	}
	h.judgesOnce(verify)
}
