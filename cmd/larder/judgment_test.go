package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A judgment is what a release of an engine did in one situation: its runs, in order. Tests compare Larder with
// judgments on record, so they need no engine. The records are data in testdata/engines of the module:
//
//	ENGINE-VERSION/KIND.jsonl   one judgment in each line, as JSON, sorted by name
//
// With -record, tests run the engines on PATH and write these files.
type judgment struct {
	Name      string `json:"name"`                // of the situation, unique in the file
	Situation string `json:"situation,omitempty"` // a digest of what the situation was made from
	As        string `json:"as,omitempty"`        // the release that did the same, in place of runs
	Runs      []ran  `json:"runs,omitempty"`
}

// A ran is a run of an engine on record. Its texts have words in braces in place of what differs
// between two runs of a test: see [template].
type ran struct {
	Args   string            `json:"args"`
	In     string            `json:"in"` // a digest of the files, arguments and variables that the engine found
	Status int               `json:"status,omitempty"`
	Says   []string          `json:"says,omitempty"`   // paragraphs of the output, sorted: see [paragraphs]
	Asks   []string          `json:"asks,omitempty"`   // requests in their order
	Served string            `json:"served,omitempty"` // a digest of the answers
	Wrote  map[string]string `json:"wrote,omitempty"`  // files that changed, by path: see [snapshot]
}

// equal reports whether two judgments of the same situation are the same. Engines search for several providers in a
// random order.
func (j *judgment) equal(other *judgment) bool {
	same := func(a, b ran) bool { return a.difference(b) == "" }
	return j.Situation == other.Situation && slices.EqualFunc(j.Runs, other.Runs, same)
}

// difference describes the first difference between two runs, or is empty.
func (r ran) difference(other ran) string {
	sorted := func(list []string) string { return strings.Join(slices.Sorted(slices.Values(list)), "\n") }
	text := func(r ran) []string {
		files := strings.Join(describe(r.Wrote), "\n")
		return []string{r.Args, r.In, strconv.Itoa(r.Status), sorted(r.Says), sorted(r.Asks), files}
	}
	a, b := text(r), text(other)
	for i, what := range []string{"arguments", "files it found", "exit status", "output", "requests", "files it wrote"} {
		if a[i] != b[i] {
			return fmt.Sprintf("%s:\n%s\non record:\n%s", what, a[i], b[i])
		}
	}
	return ""
}

// records are the judgments that a process has read or made, by release and kind.
var records = struct {
	sync.Mutex
	on   bool // -record
	read map[string]*recordFile
}{read: map[string]*recordFile{}}

// A recordFile is a file of records.
type recordFile struct {
	path    string
	byName  map[string]*judgment
	asked   map[string]bool // names that tests have asked for
	changed bool
}

// record returns the judgment on record, or nil. The file is read once.
func (p engineRelease) record(t testing.TB, kind, name string) *judgment {
	t.Helper()
	records.Lock()
	defer records.Unlock()
	f := p.records(t, kind)
	f.asked[name] = true
	if j := f.byName[name]; j == nil || j.As == "" {
		return j
	}
	return p.first().records(t, kind).byName[name]
}

// sameAs reports whether the first release of the engine is another one and did the same on record in this situation,
// perhaps with different requests. Then comparing Larder with that one is enough.
func sameAs(t testing.TB, p engineRelease, kind, name string) bool {
	t.Helper()
	first := p.first()
	j, theirs := p.record(t, kind, name), first.record(t, kind, name)
	if first == p || onPath()[p] != "" && (records.on || drawsLive(kind+name)) {
		return false
	}
	same := func(a, b ran) bool {
		a.Asks, b.Asks = nil, nil
		return a.difference(b) == ""
	}
	return j != nil && theirs != nil && j.Situation == theirs.Situation && slices.EqualFunc(j.Runs, theirs.Runs, same)
}

// first returns the first of the [engineReleases] that are releases of the same engine.
func (p engineRelease) first() engineRelease {
	same := func(other engineRelease) bool { return other.Engine == p.Engine }
	return engineReleases[slices.IndexFunc(engineReleases, same)]
}

// records returns the file of records of a kind, while records is locked.
func (p engineRelease) records(t testing.TB, kind string) *recordFile {
	t.Helper()
	path := filepath.Join("../../testdata/engines", p.String(), kind+".jsonl")
	if f := records.read[path]; f != nil {
		return f
	}
	f := &recordFile{path: path, byName: map[string]*judgment{}, asked: map[string]bool{}}
	records.read[path] = f
	text, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		sourcetest.Check(t, err)
	}
	for line := range bytes.Lines(text) {
		j := &judgment{}
		if err := json.Unmarshal(line, j); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		f.byName[j.Name] = j
	}
	return f
}

// keep records a judgment. If the first release of the engine did the same, only that is recorded.
func (p engineRelease) keep(t testing.TB, kind string, j *judgment) {
	t.Helper()
	records.Lock()
	defer records.Unlock()
	first := p.first()
	if theirs := first.records(t, kind).byName[j.Name]; first != p && theirs != nil && theirs.equal(j) {
		j = &judgment{Name: j.Name, Situation: j.Situation, As: first.String()}
	}
	f := p.records(t, kind)
	f.byName[j.Name], f.changed = j, true
}

// endRecords writes what was recorded, and makes the exit status of a whole run an error if there are records that no
// test has asked for.
func endRecords(status int) int {
	if records.on {
		if err := writeRecords(); err != nil {
			log.Fatal(err)
		}
	}
	if text := unasked(); text != "" && status == 0 && !sourcetest.Named() && !testing.Short() {
		fmt.Fprint(os.Stderr, text)
		return 1
	}
	return status
}

func writeRecords() error {
	for _, f := range records.read {
		if !f.changed {
			continue
		}
		if !sourcetest.Named() {
			maps.DeleteFunc(f.byName, func(name string, _ *judgment) bool { return !f.asked[name] })
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		for _, name := range slices.SortedFunc(maps.Keys(f.byName), naturally) {
			if err := e.Encode(f.byName[name]); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.path, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// unasked returns the records that no test of a whole run has asked for, or an empty string.
func unasked() string {
	var all []string
	for path, f := range records.read {
		for name := range f.byName {
			if len(f.asked) > 0 && !f.asked[name] {
				all = append(all, fmt.Sprintf("%s: no test asks for %s\n", path, name))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// naturally compares numbers by their values, and other names as texts.
func naturally(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}
