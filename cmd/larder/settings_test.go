package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Trust settings of a run. Every package is signed by the key of the test's publisher.
const (
	publisherKey = "A802FE842B39844D2EFFF27C62CF2F485EDF9A4B"
	strangerKey  = "40ABCE59D539435549402B43190DC679B11B764C"
)

// A trustSetting is a trust setting of a run.
type trustSetting struct {
	name string
	flag string // --trust-key
	keys string // trusted_keys in larder/config.hcl
}

var trustSettings = []trustSetting{
	{"no key", "", ""}, {"trusted key", publisherKey, ""}, {"another trusted key", strangerKey, ""},
	{"trusted_keys", "", publisherKey},
}

// run runs a command with the setting, and returns the verdicts on widget 1.2.0 that it
// writes as JSON.
func (s trustSetting) run(m *diskMachine, args string) (ending, []string) {
	if s.flag != "" {
		args += " --trust-key " + s.flag
	}
	e := m.run(args+" --json", s.env(m)...)
	var all []string
	for line := range strings.Lines(e.output) {
		var found struct {
			Provider, Version string
			Verdict           string
			Fingerprint       string
		}
		if json.Unmarshal([]byte(line), &found) != nil || found.Verdict == "" ||
			found.Provider != widgetDir || found.Version != "1.2.0" {
			continue
		}
		sourcetest.Expect(m.t, found.Fingerprint == publisherKey, "%s: %s", args, line)
		all = append(all, found.Verdict)
	}
	return e, all
}

// env returns the variables for the setting.
func (s trustSetting) env(m *diskMachine) []string {
	if s.keys == "" {
		return nil
	}
	m.write("config.hcl", fmt.Sprintf("policy { trusted_keys = { %q = [%q] } }\n", "example.test/acme/*", s.keys))
	return []string{"LARDER_CONFIG=DIR/config.hcl"}
}

// A keeping is a place that keeps packages, and the commands that read it.
type keeping struct {
	name   string
	before []string        // commands without settings
	store  string          // a command with the setting of the run that stores the package
	origin sources.Verdict // without settings
	reads  []string
}

const (
	withoutCache = "--chdir work install --no-cache"
	fromUSB      = "--chdir work install --plugin-dir ../usb"
	importIt     = "bundle import add.tar usb"
	syncUSB      = "mirror sync usb " + widgetDir + "@1.2.0"
	bundleIt     = "bundle create add.tar " + widgetDir + "@1.2.0"
	pruneAll     = "cache prune --all --yes"
)

var (
	readCache = []string{
		"cache list", "cache verify", "prefetch --dry-run --offline " + widgetDir + "@1.2.0",
		"--chdir network install --dry-run --offline",
		"--chdir work install", "--chdir work lock --check", "--chdir work install --paranoid",
	}
	readMirror = []string{"mirror list usb", "mirror verify usb"}
	readBundle = []string{"bundle verify add.tar", "bundle import add.tar other --dry-run"}
	keepings   = []keeping{
		{"cache", nil, "--chdir work install", sources.SelfSigned, readCache},
		{"working directory", nil, withoutCache, sources.SelfSigned, []string{withoutCache, withoutCache + " --paranoid"}},
		{"cache from a mirror", []string{syncUSB, pruneAll}, fromUSB, sources.MirrorEvidence, readCache},
		{"mirror", nil, syncUSB, sources.SelfSigned, readMirror},
		{"mirror from a bundle", []string{bundleIt, pruneAll}, importIt, sources.MirrorEvidence, readMirror},
		{"bundle", []string{syncUSB}, "bundle create add.tar --mirror usb", sources.MirrorEvidence, readBundle},
	}
)

// A verdict depends on the settings of the run that prints it, whatever the settings of the
// run that stored the package. No command that reads changes evidence.
func TestVerdictsFollowTheSettingsOfTheRun(t *testing.T) {
	fresh := newDiskMachine(t)
	fresh.write("network/main.tf", requiring("widget 1.2.0"))
	type trial struct {
		keeping
		then, now trustSetting
		read      string
	}
	var trials []trial
	for _, k := range keepings {
		for _, then := range trustSettings {
			for _, read := range k.reads {
				for _, now := range trustSettings {
					if now.flag == "" || !strings.Contains(read, " list") { // which has no such flag
						trials = append(trials, trial{k, then, now, read})
					}
				}
			}
		}
	}
	machines := map[string]*diskMachine{}
	for _, i := range sourcetest.Sample(t, len(trials), 8) {
		try := trials[i-1]
		t.Run(try.name+", "+try.then.name+", "+try.read+", "+try.now.name, func(t *testing.T) {
			key := try.name + try.then.name
			if machines[key] == nil {
				machines[key] = try.stored(fresh, try.then)
			}
			m := machines[key]
			m.t = t
			before := m.evidence()
			e, verdicts := try.now.run(m, try.read)
			refused := try.now.flag == strangerKey // an error of imports, a finding of checks, a warning of others
			says := func(text string) bool { return strings.Contains(e.output, text) }
			exclusive := strings.Contains(try.read, "--offline") && says("the only trusted keys for this provider are")
			sourcetest.Expect(t, e.status == 0 || exclusive || refused && (e.status == 1 || e.status == exitFound), "%s", e)
			told := says("the key did not sign the package") || says("the key signed none of")
			sourcetest.Expect(t, !refused || told, "%s", e)
			want := try.origin
			if publisherKey == try.now.flag || publisherKey == try.now.keys {
				want = sources.SignedByTrusted
			}
			for _, got := range verdicts {
				sourcetest.Expect(t, got == want.String(), "got %q, want %q: %s", got, want, e)
			}
			silent := e.status != 0 || strings.Contains(try.read, "--check")
			sourcetest.Expect(t, len(verdicts) > 0 || silent, "no verdict: %s", e)
			sourcetest.EqualSlices(t, m.evidence().since(before), nil, "evidence has changed")
		})
	}
}

// stored returns a machine that keeps the package, stored with a setting.
func (k keeping) stored(fresh *diskMachine, then trustSetting) *diskMachine {
	m := fresh.copied(fresh.t)
	for _, args := range k.before {
		m.succeeds(args)
	}
	m.remove(recordsHome) // of what other sources proved
	e, _ := then.run(m, k.store)
	if then.flag == strangerKey && e.status == 1 { // an import refuses it
		_, err := os.Stat(m.path("usb/example.test"))
		sourcetest.Expect(m.t, err != nil, "imported in spite of %s", e)
		m.succeeds(k.store)
		return m
	}
	sourcetest.Require(m.t, e.status == 0, "%s: %s", k.store, e)
	return m
}

// evidence returns all evidence on the machine.
func (m *diskMachine) evidence() diskState {
	m.t.Helper()
	all := diskStateOf(m.t, m.base)
	maps.DeleteFunc(all, func(name, _ string) bool { return !strings.Contains(name, "/.larder/evidence/") })
	return all
}
