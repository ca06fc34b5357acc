//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestCommandsAgree runs commands that answer the same question in generated situations, and compares what they say:
// numbers, versions, verification results, what is allowed, and exit statuses. Half of the situations are about
// installations, the other half about lock files, caches and mirrors. With the flag -situations, which makes others,
// each is about both.
//
// The test prints the complete situation of each contradiction, and the output of all commands.
func TestCommandsAgree(t *testing.T) {
	t.Parallel()
	seeds, both := requested(t), *situations != ""
	if !both {
		size := 80 // each takes a tenth of a second
		if sourcetest.Thorough() {
			size = 200
		}
		for _, i := range sourcetest.Sample(t, 200, size) {
			seeds = append(seeds, uint64(i))
		}
	}
	made := &comparisons{made: map[string]int{}}
	t.Run("situations", func(t *testing.T) {
		for _, seed := range seeds {
			if testing.Short() && (seed+sourcetest.Seed())%20 != 0 {
				continue // the race detector takes most of the time
			}
			for part, compare := range []func(*hearing){(*hearing).installations, (*hearing).stores} {
				if !both && seed%2 != uint64(part) {
					continue
				}
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					t.Parallel()
					h := &hearing{household: drawHousehold(seed), made: made}
					h.ground = ground{t, sourcetest.New(t), sourcetest.MemoryDir(t)}
					h.arrange()
					compare(h)
					if len(h.found) > 0 {
						t.Errorf("%s\n%s\n%s\nrepeat it with -situations 1@%d", strings.Join(h.found, "\n"), inFull(h.household),
							strings.Join(h.log, "\n"), seed)
					}
				})
			}
		}
	})
	for family, n := range made.made {
		sourcetest.Expect(t, n >= 200 || len(seeds) < 200 || testing.Short(), "%s: only %d comparisons", family, n)
	}
	t.Log(made.made)
}

// comparisons counts them by family.
type comparisons struct {
	sync.Mutex
	made map[string]int
}

// A hearing is a situation on disk and on servers, in which commands run.
type hearing struct {
	*household
	ground
	user  string // that runs the commands, as in LARDER_TEST_USER
	made  *comparisons
	found []string // contradictions
	log   []string // commands with their output
}

// A statement is what a command says with --json, or without.
type statement struct {
	command string
	rows    []saying
	text    string
	status  int
}

// An saying is an object in JSON.
type saying map[string]any

func (s saying) text(member string) string { text, _ := s[member].(string); return text }

func (s saying) number(member string) int { n, _ := s[member].(float64); return int(n) }

func (s saying) id() string {
	return s.text("provider") + " " + s.text("version") + " " + s.text("platform")
}

// list returns the texts of a list, sorted.
func (s saying) list(member string) (all []string) {
	values, _ := s[member].([]any)
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	slices.Sort(all)
	return all
}

// of returns the objects of a type for which a member has a value. Without a member, it returns all of the type.
func (s statement) of(kind string, is ...string) []saying {
	return slices.DeleteFunc(slices.Clone(s.rows), func(r saying) bool {
		return r.text("type") != kind || len(is) > 0 && r.text(is[0]) != is[1]
	})
}

func (s statement) errors() []saying { return s.of("diagnostic", "severity", "error") }

func (s statement) sum() saying { return append(s.of("summary"), saying{})[0] }

// number adds up members of the summary.
func (s statement) number(members ...string) (sum int) {
	for _, name := range members {
		sum += s.sum().number(name)
	}
	return sum
}

// ids returns the packages of a type, sorted.
func (s statement) ids(kind string) (all []string) {
	for _, r := range s.of(kind) {
		all = append(all, r.id())
	}
	slices.Sort(all)
	return all
}

// ask runs a command with --json and the flags of the situation, in all root modules if -R is among the arguments.
func (h *hearing) ask(args ...string) statement {
	args = append(args, "--json")
	if i := slices.Index(args, "-R"); i >= 0 && !h.Recursive {
		args = slices.Delete(args, i, i+1)
	}
	if args[0] != "verify" && args[1] != "list" && args[0]+args[1] != "mirrorverify" {
		args = append(args, h.Flags...)
	}
	s := h.run(args...)
	for line := range strings.Lines(s.text) {
		var r saying
		h.must(json.Unmarshal([]byte(line), &r))
		s.rows = append(s.rows, r)
	}
	h.status(s)
	return s
}

// run runs a command.
func (h *hearing) run(args ...string) statement {
	h.t.Helper()
	dir := h.path("work")
	if !h.Recursive {
		dir = h.path("work", h.Roots[0].Dir)
	}
	env := append([]string{
		"PATH=" + h.path("home"), "HOME=" + h.path("home"), "TF_REGISTRY_DISCOVERY_RETRY=1", // and no engine
		"TF_CLI_CONFIG_FILE=" + h.path("config.tfrc"), "LARDER_TEST_USER=" + h.user,
	}, h.world.Network()...)
	if args[0] != "cache" && (args[0] != "mirror" || args[1] == "sync") {
		args = append(args, "--engine", string(h.Engine))
	}
	text, status := workBoth(h.t, dir, env, args...)
	s := statement{command: strings.Join(args, " "), text: text, status: status}
	h.log = append(h.log, fmt.Sprintf("$ larder %s # %d\n%s", s.command, status, text))
	return s
}

// differ notes a contradiction.
func (h *hearing) differ(format string, args ...any) {
	h.found = append(h.found, fmt.Sprintf(format, args...))
}

// sameAnswer compares two answers.
func sameAnswer[T any](h *hearing, family, what string, one, other T) {
	h.holds(family, fmt.Sprint(one) == fmt.Sprint(other), "%s: %v, %v", what, one, other)
}

// holds notes a contradiction unless an answer is consistent.
func (h *hearing) holds(family string, ok bool, format string, args ...any) {
	h.made.Lock()
	h.made.made[family]++
	h.made.Unlock()
	if !ok {
		h.differ(family+": "+format, args...)
	}
}

// sameNumbers compares members of summaries.
func (h *hearing) sameNumbers(family string, one, other statement, members ...string) {
	for _, name := range members {
		sameAnswer(h, family, name+" of "+one.command+", "+other.command, one.number(name), other.number(name))
	}
}

// status requires an exit status as larder help exit-status describes it.
func (h *hearing) status(s statement) {
	problems := s.number("problems", "failures", "risks", "incomplete")
	failed := s.number("errors", "failed")
	checks := regexp.MustCompile(`^(check|doctor|.*verify|lock --check) `).MatchString(s.command)
	sameAnswer(h, "status", s.command+": status in the summary", s.number("exit_status"), s.status)
	sameAnswer(h, "status", s.command+": errors", s.number("errors"), len(s.errors()))
	as := map[int]bool{
		0: failed == 0 && (!checks || problems == 0),
		1: failed > 0,
		3: checks && problems > 0,
	}
	h.holds("status", as[s.status], "%s: %d with %d errors and %d problems", s.command, s.status, failed, problems)
}

// byRoot returns objects by ROOT or ROOT PROVIDER. Those of all root modules have an empty ROOT.
func (h *hearing) byRoot(rows []saying) map[string][]saying {
	all := map[string][]saying{}
	for _, r := range rows {
		members, _ := r["members"].([]any)
		if len(members) == 0 {
			members = []any{map[string]any{}}
		}
		for _, one := range members {
			m := maps.Clone(map[string]any(r))
			maps.Copy(m, one.(map[string]any))
			modules := saying(m).list("modules")
			if modules == nil {
				modules = []string{saying(m).text("module")}
			}
			for _, root := range modules {
				if root == "" && !h.Recursive {
					root = h.Roots[0].Dir
				}
				key := strings.TrimSpace(root + " " + saying(m).text("provider"))
				all[key] = append(all[key], m)
			}
		}
	}
	return all
}

// versionsOf returns the versions of packages, by ROOT PROVIDER.
func (h *hearing) versionsOf(s statement) map[string]string {
	all := map[string]string{}
	for key, rows := range h.byRoot(s.of("package")) {
		all[key] = rows[0].text("version")
	}
	return all
}

// each calls do for each provider that a root module requires, with ROOT PROVIDER.
func (h *hearing) each(do func(root, provider, key string)) {
	for i, r := range h.Roots {
		for _, required := range r.Required {
			if address, _, _ := strings.Cut(required, " "); i == 0 || h.Recursive {
				do(r.Dir, address, r.Dir+" "+address)
			}
		}
	}
}

// textsOf returns the texts of rows, sorted. A dry run doesn't say which file a package is, and not always its hashes.
func textsOf(rows []saying) (all []string) {
	for _, r := range rows {
		text := anyPackage.ReplaceAllString(r.text("text"), "the package is another,")
		all = append(all, anyArchive.ReplaceAllString(text, "reading"))
	}
	slices.Sort(all)
	return all
}

var (
	anyPackage = regexp.MustCompile(`((\w+ )*(mirror|registry) \S+: )?the package (from \S+ )?is [^,]*,`)
	anyArchive = regexp.MustCompile(`(unpacking|filesystem mirror: \S+): reading`)
)

// numberIn returns the number in front of the words in a line.
func numberIn(line, words string) (n int) {
	if m := regexp.MustCompile(`(\d+) ` + words).FindStringSubmatch(line); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	return n
}
