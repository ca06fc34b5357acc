package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// pairs returns the texts that differ between two runs of a test, each followed by the word for it in records.
func (r engineRun) pairs() []string {
	pairs := []string{r.Base, "@{dir}"}
	if w := r.World; w != nil {
		pairs = append(pairs, filepath.Dir(w.CAFile), "@{world}")
		for i, s := range w.Servers() {
			pairs = append(pairs, s.Host, []string{"@{registry}", "@{mirror}", "@{oci}"}[i])
		}
		for i, hashes := range w.AllHashes() {
			pairs = append(pairs, hashes[0], fmt.Sprintf("@{zh %d}", i+1))
			if hashes[1] != "" {
				pairs = append(pairs, hashes[1], fmt.Sprintf("@{h1 %d}", i+1))
			}
		}
	}
	return append(pairs, runtime.GOOS+"_"+runtime.GOARCH, "@{platform}")
}

// template replaces what differs between two runs of a test with words in braces: directories, ports, and the hashes
// of packages, which are numbered as the world lists them.
func (r engineRun) template() *strings.Replacer { return strings.NewReplacer(r.pairs()...) }

// words replaces the words in braces with what they stand for.
func (r engineRun) words() *strings.Replacer {
	pairs := r.pairs()
	slices.Reverse(pairs)
	return strings.NewReplacer(pairs...)
}

func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(h, "%d %s\n", len(text), text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// snapshot returns the files by path, each in one of these forms:
//
//	d         a directory
//	l TARGET  a symbolic link
//	f TEXT    a file; x if it is executable
//	F SHA256  a file that isn't text, or is long; X if it is executable
//
// It leaves out Larder's own directories. A link to one of these is "l", followed by what it leads to.
func (r engineRun) snapshot(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	sourcetest.Check(t, r.walk(files, r.template(), r.Base, ""))
	return files
}

// own reports whether a path below the base is Larder's own, or isn't the engine's business.
func (r engineRun) own(path string) bool {
	for name := range strings.SplitSeq(path, string(filepath.Separator)) {
		if name == ".larder" || name == "larder" {
			return true
		}
	}
	first, _, _ := strings.Cut(path, string(filepath.Separator))
	return slices.Contains(r.Beside, first)
}

// walk adds the files below dir, under names that begin with prefix.
func (r engineRun) walk(files map[string]string, template *strings.Replacer, dir, prefix string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case rel == "." && prefix == "":
			return nil
		case prefix == "" && r.own(rel) && e.IsDir():
			return fs.SkipDir
		case prefix == "" && r.own(rel):
			return nil
		}
		name := template.Replace(filepath.ToSlash(filepath.Join(prefix, rel)))
		switch {
		case e.IsDir():
			files[name] = "d"
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			files[name] = "l " + template.Replace(target)
			real, _ := filepath.EvalSymlinks(path) // empty if it leads nowhere
			if rel, relErr := filepath.Rel(r.Base, real); relErr == nil && real != "" && r.own(rel) {
				files[name] = "l"
				err = errors.Join(err, r.walk(files, template, real, name))
			}
			return err
		case e.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			kind, text := "f ", ""
			if info.Mode()&0o100 != 0 {
				kind = "x "
			}
			if len(data) > 16<<10 || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
				kind, text = strings.ToUpper(kind), fmt.Sprintf("%x", sha256.Sum256(data))
			} else {
				text = template.Replace(string(data))
			}
			files[name] = kind + text
		}
		return nil
	})
}

// digest returns a digest of what the engine finds.
func (r engineRun) digest(t testing.TB, files map[string]string) string {
	t.Helper()
	rel, err := filepath.Rel(r.Base, r.Dir)
	sourcetest.Check(t, err)
	found := append(describe(files), rel)
	for _, variable := range slices.Sorted(slices.Values(r.Env)) {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == "TF_CLI_CONFIG_FILE" && !strings.HasPrefix(value, r.Base): // in the world, under a random name
			text, err := os.ReadFile(value)
			sourcetest.Check(t, err)
			found = append(found, r.template().Replace(string(text)))
		case strings.HasPrefix(name, "TF_") || strings.HasPrefix(name, "XDG_") || name == "HOME":
			found = append(found, r.template().Replace(variable))
		}
	}
	return digest(found...)
}

// settles reports whether a digest is that of files to which the directory of Larder's records is added, or from which
// it is removed. Larder writes records once the files have settled, which depends on how busy the machine is.
func (r engineRun) settles(t testing.TB, files map[string]string, digest string) bool {
	t.Helper()
	other := maps.Clone(files)
	for _, name := range []string{"home/.local", "home/.local/state"} {
		if _, there := files[name]; there {
			delete(other, name)
		} else {
			other[name] = "d"
		}
	}
	return r.digest(t, other) == digest
}

func describe(files map[string]string) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		lines = append(lines, name+": "+files[name])
	}
	return lines
}

// changedFiles returns the differences between two snapshots, "-" for what is gone.
func changedFiles(before, after map[string]string) map[string]string {
	wrote := map[string]string{}
	for name := range before {
		if _, ok := after[name]; !ok {
			wrote[name] = "-"
		}
	}
	parents := map[string]bool{}
	for name, file := range after {
		if before[name] != file {
			wrote[name] = file
			for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
				parents[dir] = true
			}
		}
	}
	maps.DeleteFunc(wrote, func(name, file string) bool { return file == "d" && parents[name] })
	return wrote
}

// servers returns the servers that the engine may ask.
func (r engineRun) servers() []*sourcetest.Server {
	if r.World == nil {
		return nil
	}
	return r.World.Servers()
}

// releaseFileName matches the usual names of files in a release, which lines of requests leave out: "~" stands for
// what they begin with.
var releaseFileName = regexp.MustCompile(`/([^/]+)/([^/]+)/terraform-provider-([^/_]+)_([^/_]+)_([^/]+)$`)

// lineOf returns a request in one line, from which [engineRun.ask] makes it again.
func lineOf(r sourcetest.Request) string {
	line := r.Host + r.URI
	if m := releaseFileName.FindStringSubmatch(r.URI); m != nil && m[1] == m[3] && m[2] == m[4] {
		line = strings.TrimSuffix(line, m[0]) + "/" + m[1] + "/" + m[2] + "/~" + m[5]
	}
	if r.Method != http.MethodGet {
		line = r.Method + " " + line
	}
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		line += " " + authorization
	}
	return line
}

var abbreviated = regexp.MustCompile(`/([^/]+)/([^/]+)/~`)

var requestLine = regexp.MustCompile(`^(?:([A-Z]+) )?([^/ ]+)(\S+)(?: (.*))?$`)

// ask makes the requests of a run, without a connection, and returns a digest of the answers, and their bodies.
func (r engineRun) ask(t testing.TB, lines []string) (served string, bodies [][]byte) {
	t.Helper()
	if len(lines) == 0 {
		return "", nil
	}
	words, template := r.words(), r.template()
	var answers []string
	for _, line := range lines {
		m := requestLine.FindStringSubmatch(words.Replace(line))
		if m == nil {
			t.Fatalf("not a request: %s", line)
		}
		method, host := m[1], m[2]
		if method == "" {
			method = http.MethodGet
		}
		uri := abbreviated.ReplaceAllString(m[3], "/$1/$2/terraform-provider-${1}_${2}_")
		request := httptest.NewRequest(method, "https://"+host+uri, nil)
		request.RequestURI = uri
		if m[4] != "" {
			request.Header.Set("Authorization", m[4])
		}
		answer := r.World.Ask(request)
		body := answer.Body.Bytes()
		bodies = append(bodies, body)
		text := string(body)
		if utf8.Valid(body) {
			text = template.Replace(text)
		}
		answers = append(answers, fmt.Sprint(answer.Code, " ", answer.Header().Get("Content-Type")), text)
	}
	return digest(answers...), bodies
}

// replay does what the engine did.
func (r engineRun) replay(t testing.TB, on ran) {
	t.Helper()
	served, bodies := r.ask(t, on.Asks)
	if served != on.Served {
		t.Fatalf("the record of %s is stale: the servers answer these requests differently now; "+
			"run it with the engine on PATH and -record\n%s", on.Args, strings.Join(on.Asks, "\n"))
	}
	pool := r.pool(t, on, bodies)
	words := r.words()
	at := func(name string) string { return filepath.Join(r.Base, filepath.FromSlash(words.Replace(name))) }
	for name, file := range on.Wrote { // before links take the place of directories
		if file != "d" {
			sourcetest.Check(t, os.RemoveAll(at(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(on.Wrote)) {
		path := at(name)
		kind, text, _ := strings.Cut(on.Wrote[name], " ")
		if kind == "-" {
			continue
		}
		sourcetest.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch kind {
		case "d":
			sourcetest.Check(t, os.MkdirAll(path, 0o755))
		case "l":
			sourcetest.Check(t, os.Symlink(words.Replace(text), path))
		case "f":
			sourcetest.Check(t, os.WriteFile(path, []byte(words.Replace(text)), 0o644))
		case "x":
			sourcetest.WriteExecutable(t, path, []byte(words.Replace(text)))
		case "F", "X":
			data, ok := pool[text]
			sourcetest.Require(t, ok, "%s: nothing here has the contents of %s, which it wrote", on.Args, name)
			sourcetest.WriteExecutable(t, path, data)
			sourcetest.Check(t, os.Chmod(path, map[string]fs.FileMode{"F": 0o644, "X": 0o755}[kind]))
		}
	}
}

// pool returns what the engine could write that isn't in the record, by SHA-256: what it downloaded, and what there
// was before, each as it is and unpacked. It is empty if nothing of this is needed.
func (r engineRun) pool(t testing.TB, on ran, bodies [][]byte) map[string][]byte {
	t.Helper()
	pool := map[string][]byte{}
	binary := func(file string) bool { return strings.HasPrefix(file, "F ") || strings.HasPrefix(file, "X ") }
	if !slices.ContainsFunc(slices.Collect(maps.Values(on.Wrote)), binary) {
		return pool
	}
	add := func(data []byte) { pool[fmt.Sprintf("%x", sha256.Sum256(data))] = data }
	sourcetest.Check(t, filepath.WalkDir(r.Base, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		bodies = append(bodies, data)
		return err
	}))
	for _, body := range bodies {
		add(body)
		for _, data := range unzipped(body) {
			add(data)
		}
	}
	return pool
}

// unzipped returns the files in an archive, or nothing if it is none.
func unzipped(archive []byte) (files [][]byte) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil
	}
	for _, f := range z.File {
		if content, err := f.Open(); err == nil {
			data, _ := io.ReadAll(content)
			files = append(files, data)
		}
	}
	return files
}

// boilerplate matches paragraphs of output that explain the others, or are the same in all situations.
var boilerplate = regexp.MustCompile(`^(Initializing |You may now begin|If you ever set or change|` +
	`Partner and community|(Terraform|OpenTofu) has (been successfully|created a lock|made some)|` +
	`https://(developer\.hashicorp\.com|www\.terraform\.io|opentofu\.org)|Signed by a trusted|` +
	`If you'd like to know more|- (Installing|Fetching|Downloading|Mirroring) |Review the changes|Success! |` +
	`- terraform\.io/builtin/|Upgrading modules|To (calculate additional|see which modules)|` +
	`The current \.terraform\.lock|Due to your customized|All modules should specify|` +
	`(Terraform|OpenTofu) 0\.13 and earlier|Provider releases are separate|\(and .* elsewhere\)|` +
	`As a result of the above|Warning: Version constraints inside|- \w+ in \S+$)`)

var (
	frames    = strings.NewReplacer("│", " ", "╷", "", "╵", "")
	beginning = regexp.MustCompile(`^(- |Error: |Warning: |Initializing |Partner and community |(Terraform|OpenTofu) has )`)
	crashLine = regexp.MustCompile(`(?m)^(panic|runtime error): .*$`)
	temporary = regexp.MustCompile(`[^\s"]*/terraform-provider\d+`)
)

// paragraphs returns the paragraphs of an engine's output, each in one line, sorted, without [boilerplate]. Engines
// break lines at a width, and search for providers in a random order.
func paragraphs(output string, template *strings.Replacer) []string {
	var all []string
	if panicked := crashLine.FindString(output); panicked != "" {
		return []string{panicked} // the rest has addresses of memory
	}
	for block := range strings.SplitSeq(frames.Replace(output), "\n\n") {
		var paragraph []string
		flush := func() {
			text := temporary.ReplaceAllString(template.Replace(strings.Join(paragraph, " ")), "@{temporary}")
			if text != "" && !boilerplate.MatchString(text) {
				all = append(all, text)
			}
			paragraph = nil
		}
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			if beginning.MatchString(line) {
				flush()
			}
			if line != "" {
				paragraph = append(paragraph, line)
			}
		}
		flush()
	}
	slices.Sort(all)
	return slices.Compact(all)
}
