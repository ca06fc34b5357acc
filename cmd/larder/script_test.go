package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/age"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The scripts in testdata/script each tell a story of what users meet. Besides
// the commands of testscript they have these:
//
//	registry                     publish the providers in _registry
//	registry -release ADDRESS VERSION [NAME=VALUE...]
//	                             publish a version that is odd in some way, or that runs
//	registry -fault WORD...      let requests go wrong, as parseFault has it
//	registry -mend               let them go right again
//	registry -hide PATTERN       pretend that packages do not exist
//	registry -token TOKEN        refuse requests without the token
//	registry -token-everywhere TOKEN
//	                             not for archives, checksums and signatures either
//	registry -require NAME VALUE refuse requests without this header
//	registry -client FILE        refuse connections without this client certificate and its key
//	registry -authority FILE     have certificates of an authority of its own, which is this
//	registry -stop               refuse connections
//	netmirror -fault …           the same for the network mirror
//	netmirror -serve DIR         have it serve the files in DIR, and nothing else
//	ociprogram [-login] [FILE…]
//	                             start a real OCI registry, at $REGISTRY, and write that in place of
//	                             oci.example.test in files
//	mirror -packed DIR [PATTERN] make DIR a filesystem mirror of what is published
//	mirror -unpacked DIR [PATTERN]
//	mirror -evidence DIR         add what vouches for the packages
//	requests [KIND] N            so many requests were made since last forgotten
//	requests -forget
//	requests -distinct KIND N     the requests were for so many files, some of them perhaps in parts
//	requests -bytes KIND A B     the answers had from A to B bytes in all
//	requests -header KIND NAME VALUE
//	                             the last request had this header
//	requests -client KIND NAME   all requests were by who showed this certificate
//	await KIND N                 wait until so many requests were made
//	await -bytes KIND N          wait until the answers had so many bytes
//	larder …                     run larder, if possible in a process that has run others: exec larder takes longer
//	fails STATUS COMMAND…        run a command that ends with this exit status
//	numbers [FLAG...]            require that all commands show the same numbers about the plugin cache
//	numbers -mirror DIR          or about a mirror
//	numbers -prune FLAG...       prune, and require that the cache shrinks by what a dry run showed
//	interrupt KIND               once such a request is made, interrupt what runs in the background
//	status STATUS                what was interrupted and waited for ended with this exit status
//	unprivileged                 run larder as somebody who may not write everywhere
//	repo PATH…                   copy files of this repository to where we are
//	zip FILE DIR                 make an archive of what is in a directory
//	transcript FILE [HEADING]    run the commands that a document shows, and compare their output
//	recipe FILE                  run the commands in a file of docs/recipes
//	recipe action.yml [NAME=VALUE...]
//	                             run the action with inputs
//
//	serve …                      run larder serve, see serveScript
//	key NAME                     write the keys NAME.public and NAME.private
//	sign NAME FILE               sign a file with a key, to FILE.sig
//	quarantine DIR…              give all files the attribute that macOS has for downloads, or require that none has it
//
//	engine [NAME]                put an engine on PATH, or those that are installed
//
// All host names lead to the registry, those that start with "mirror." to the
// network mirror and those that start with "oci." to the OCI registry; nothing leads out of the test.
//
// A script that runs $ENGINE is run with each engine on PATH, as NAME-terraform and NAME-tofu. PATH has no other
// engine, because larder's choice depends on it. $RELEASE is the engine with its version, such as terraform-1.11.
func TestScripts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" || runtime.GOARCH != "amd64" {
		t.Skip("what scripts expect names linux_amd64, and certificates come from SSL_CERT_FILE")
	}
	path := withoutEngines(t)
	params := testscript.Params{
		Setup: func(env *testscript.Env) error {
			return setUp(env, path)
		},
		Cmds:               commands,
		Condition:          condition,
		UpdateScripts:      *update,
		RequireUniqueNames: true,
	}
	all, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	sourcetest.Check(t, err)
	if runtime.GOOS == "windows" {
		listed := strings.Fields(string(sourcetest.ReadFile(t, filepath.Join("testdata", "windows.txt"))))
		all = slices.DeleteFunc(all, func(script string) bool {
			return !slices.Contains(listed, strings.TrimSuffix(filepath.Base(script), ".txtar"))
		})
	}
	byEngine := map[sources.Engine][]string{}
	for _, script := range all {
		if !bytes.Contains(sourcetest.ReadFile(t, script), []byte("$ENGINE ")) {
			// The race detector takes most of the time.
			if !testing.Short() || sourcetest.Named() || sourcetest.Draws(t, script, 4) {
				params.Files = append(params.Files, script)
			}
			continue
		}
		for _, e := range sourcetest.Engines {
			if sourcetest.DrawsEngine(t, script, e) {
				byEngine[e] = append(byEngine[e], script)
			}
		}
	}
	testscript.Run(t, params)
	for _, p := range releasesOnPath() {
		params.Files = linksFor(t, p.Engine, byEngine[p.Engine])
		params.Setup = func(env *testscript.Env) error {
			env.Setenv("ENGINE", string(p.Engine))
			env.Setenv("RELEASE", p.String()[:strings.LastIndexByte(p.String(), '.')])
			return setUp(env, engineDir(env.T().(testing.TB), p.Engine)+string(os.PathListSeparator)+path)
		}
		testscript.Run(t, params)
	}
}

// withoutEngines is PATH without engines. Directories that have one are replaced by others with links
// to the rest.
func withoutEngines(t *testing.T) string {
	t.Helper()
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for i, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		engine := func(e os.DirEntry) bool { return slices.Contains(site.BothEngines, sources.Engine(e.Name())) }
		others := slices.DeleteFunc(slices.Clone(entries), engine)
		if len(others) == len(entries) {
			continue
		}
		dirs[i] = sourcetest.PublicDir(t)
		for _, e := range others {
			sourcetest.Check(t, os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(dirs[i], e.Name())))
		}
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// engineDir is a directory that has an engine, by its usual name, and nothing else.
func engineDir(t testing.TB, e sources.Engine) string {
	t.Helper()
	dir := sourcetest.PublicDir(t)
	sourcetest.Check(t, os.Symlink(sourcetest.OnPath(t, string(e)), filepath.Join(dir, string(e))))
	return dir
}

// putEngine is a command of scripts.
func putEngine(ts *testscript.TestScript, _ bool, args []string) {
	for _, e := range sourcetest.Engines {
		if _, err := exec.LookPath(string(e)); slices.Contains(args, string(e)) || len(args) == 0 && err == nil {
			ts.Setenv("PATH", engineDir(story(ts).t, e)+string(os.PathListSeparator)+ts.Getenv("PATH"))
		}
	}
}

// linksFor are links to scripts, with names that have the engine's in them.
func linksFor(t *testing.T, e sources.Engine, scripts []string) (links []string) {
	t.Helper()
	dir := t.TempDir()
	for _, script := range scripts {
		target, err := filepath.Abs(script)
		sourcetest.Check(t, err)
		name, _ := strings.CutSuffix(filepath.Base(script), ".txtar")
		link := filepath.Join(dir, fmt.Sprintf("%s-%s.txtar", name, e))
		sourcetest.Check(t, os.Symlink(target, link))
		links = append(links, link)
	}
	return links
}

// A storyState is what the commands of one script share.
type storyState struct {
	t          testing.TB
	world      *sourcetest.World
	repo       string       // the repository's directory
	background []*exec.Cmd  // interrupted
	served     *served      // the last server; nil if there was none
	shown      *shownServer // the last server that a document has started; nil if there was none
	variables  []string     // names of those that are set at the beginning
}

type storyKey struct{}

// condition adds [clones]: files here can be reflinked, [root]: this is root, [mounts]: file systems can
// be mounted, [netns]: there can be networks that are empty, [attributes]: files have extended
// attributes, and [is:$ENGINE:tofu]: that is the engine.
func condition(name string) (bool, error) {
	if words, ok := strings.CutPrefix(name, "is:"); ok {
		a, b, _ := strings.Cut(words, ":")
		return a == b, nil
	}
	switch name {
	case "mounts":
		return exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", os.TempDir()).Run() == nil, nil
	case "netns":
		return exec.Command("unshare", "-rn", "true").Run() == nil, nil
	case "clones":
		return clones()
	case "root":
		return os.Geteuid() == 0, nil
	case "attributes":
		return hasAttributes(), nil
	}
	return false, fmt.Errorf("no condition %s", name)
}

// hasAttributes reports whether files have extended attributes, which only Linux has here.
var hasAttributes = func() bool { return false }

func clones() (bool, error) {
	dir, err := os.MkdirTemp("", "clones")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	from := filepath.Join(dir, "from")
	if err := os.WriteFile(from, []byte("text"), 0o644); err != nil {
		return false, err
	}
	return exec.Command("cp", "--reflink=always", from, filepath.Join(dir, "to")).Run() == nil, nil
}

func story(ts *testscript.TestScript) *storyState { return ts.Value(storyKey{}).(*storyState) }

func world(ts *testscript.TestScript) *sourcetest.World { return story(ts).world }

// setUp makes a world for a script, and a machine without any configuration.
func setUp(env *testscript.Env, path string) error {
	// Otherwise every file in it would be private.
	for _, dir := range []string{env.WorkDir, filepath.Dir(env.WorkDir)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	w := sourcetest.New(env.T().(testing.TB))
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	env.Values[storyKey{}] = &storyState{t: env.T().(testing.TB), world: w, repo: repo}
	env.Vars = append(env.Vars, w.Network()...)
	home := filepath.Join(env.WorkDir, "home")
	env.Setenv("HOME", home)
	env.Setenv("PATH", path)
	env.Setenv("XDG_DATA_DIRS", filepath.Join(env.WorkDir, "share"))
	if runtime.GOOS == "windows" {
		env.Setenv("XDG_STATE_HOME", filepath.Join(home, ".local", "state"))
		env.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
		env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	}
	env.Setenv("PLATFORM", "linux_amd64")
	env.Setenv("WORK", filepath.ToSlash(env.WorkDir))
	env.Setenv("NO_PROXY", "")
	env.Setenv("LARDER_TEST_SCHEMA", filepath.Join(repo, "docs", "json.schema.json"))
	state := env.Values[storyKey{}].(*storyState)
	setFileSystem(env)
	for _, assignment := range env.Vars {
		name, _, _ := strings.Cut(assignment, "=")
		state.variables = append(state.variables, name)
	}
	return errors.Join(err, os.MkdirAll(home, 0o755))
}

// setFileSystem sets FS to a directory on the file system that scripts/test-filesystems has created, and KIND to its
// kind. Without it, FS is a directory like any other, and KIND is empty.
func setFileSystem(env *testscript.Env) {
	at := filepath.Join(env.WorkDir, "fs")
	if dir := os.Getenv("LARDER_TEST_DIR"); dir != "" {
		at = filepath.Join(dir, "story")
	}
	env.Setenv("FS", filepath.ToSlash(at))
	env.Setenv("KIND", os.Getenv("LARDER_TEST_KIND"))
}

var commands = map[string]func(*testscript.TestScript, bool, []string){
	"registry":     registryCommand,
	"seen":         seen,
	"netmirror":    func(ts *testscript.TestScript, _ bool, args []string) { serverCommand(ts, world(ts).Mirror, args) },
	"oci":          ociCommand,
	"store":        storeCommand,
	"ociprogram":   ociProgram,
	"mirror":       writeMirror,
	"requests":     requests,
	"await":        await,
	"fails":        fails,
	"problems":     problems,
	"numbers":      numbers,
	"interrupt":    interrupt,
	"status":       endedWith,
	"unprivileged": unprivileged,
	"repo":         repo,
	"zip":          zipCommand,
	"transcript":   transcript,
	"recipe":       recipe,
	"engine":       putEngine,
	"serve":        serveScript,
	"larder":       larderCommand,
	"key":          keyFiles,
	"sign":         signFile,
}

func registryCommand(ts *testscript.TestScript, _ bool, args []string) {
	switch {
	case len(args) == 0:
		publish(ts, os.DirFS(ts.MkAbs("_registry")))
	case args[0] == "-release" && len(args) > 2:
		world(ts).Add(args[1], args[2], release(ts, args[3:]))
	default:
		serverCommand(ts, world(ts).Registry, args)
	}
}

// ociCommand publishes packages in the OCI registry, or changes how it behaves.
func ociCommand(ts *testscript.TestScript, _ bool, args []string) {
	switch s := world(ts).OCI(); {
	case len(args) == 0 || args[0][0] != '-':
		world(ts).PushOCI(args...)
	case args[0] == "-login": // USER PASSWORD, and basic for Basic authentication
		s.Login(args[1], args[2], len(args) == 4)
	case args[0] == "-image": // NAME TAG, below the repository mirror: a container image
		s.PushManifest(args[1], args[2], map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
			"config": map[string]any{"mediaType": "application/vnd.oci.image.config.v1+json"}, "layers": []any{},
		})
	default:
		serverCommand(ts, s, args)
	}
}

// ociProgram starts a real OCI registry, with a login if the first argument is -login. REGISTRY is its host and port,
// which replace oci.example.test in the given files.
func ociProgram(ts *testscript.TestScript, _ bool, files []string) {
	login := len(files) > 0 && files[0] == "-login"
	if login {
		files = files[1:]
		ts.Setenv("REGISTRY_USER", sourcetest.RegistryUser)
		ts.Setenv("REGISTRY_PASSWORD", sourcetest.RegistryPassword)
	}
	r := sourcetest.NewRegistry(story(ts).t, login)
	ts.Setenv("REGISTRY", r.Host)
	words := strings.NewReplacer("oci.example.test", r.Host, "PASSWORD", sourcetest.RegistryPassword)
	for _, file := range files {
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(words.Replace(ts.ReadFile(file))), 0o644))
	}
}

// storeCommand starts a real S3-compatible store with buckets, and sets the variables with which Larder finds it. STORE
// is a directory with the objects of each bucket as files. With -plain, the store has no TLS.
func storeCommand(ts *testscript.TestScript, _ bool, args []string) {
	plain := args[0] == "-plain"
	if plain {
		args = args[1:]
	}
	s := sourcetest.NewS3(story(ts).t, !plain, args...)
	ts.Setenv("STORE", s.Dir)
	ts.Setenv("AWS_ENDPOINT_URL_S3", s.Endpoint)
	ts.Setenv("AWS_ACCESS_KEY_ID", s.AccessKeyID)
	ts.Setenv("AWS_SECRET_ACCESS_KEY", s.SecretAccessKey)
	ts.Setenv("AWS_CA_BUNDLE", s.CAFile)
}

// release is an odd release, NAME=VALUE by NAME=VALUE.
func release(ts *testscript.TestScript, words []string) sourcetest.Release {
	var r sourcetest.Release
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "platform":
			r.Platforms = append(r.Platforms, value)
		case "protocol":
			r.Protocols = append(r.Protocols, value)
		case "warning":
			r.Warnings = append(r.Warnings, value)
		case "runs":
			executable, err := os.ReadFile(sourcetest.Provider(story(ts).t))
			ts.Check(err)
			r.Files = map[string]string{"terraform-provider-" + value: string(executable)}
			r.Protocols = []string{"6.0"}
		case "packages":
			r.Packages = true
		case "size":
			n, err := strconv.ParseInt(value, 10, 64)
			ts.Check(err)
			r.Size = n
		case "file":
			path, content, _ := strings.Cut(value, "=")
			if r.Files == nil {
				r.Files = map[string]string{}
			}
			r.Files[path] = content
		case "archive":
			r.Archive = []byte(ts.ReadFile(value))
		case "key":
			r.Signer = key(ts, value)
		case "listed":
			r.Keys = []*sourcetest.Key{}
			if value != "" {
				r.Keys = append(r.Keys, key(ts, value))
			}
		case "sums":
			before, after, _ := strings.Cut(value, "->")
			r.EditSums = sourcetest.Replace(before, after)
		case "signature":
			r.EditSignature = func([]byte) []byte { return []byte(value) }
		case "download":
			field, text, _ := strings.Cut(value, "=")
			r.EditDownload = func(doc map[string]any) { doc[field] = text }
		default:
			ts.Fatalf("no %s in a release", name)
		}
	}
	return r
}

// packageFile matches HOST/NAMESPACE/TYPE/VERSION/, optionally OS_ARCH/, and a
// path in the package. Without OS_ARCH the file is for the default platforms.
var packageFile = regexp.MustCompile(`^([^/]+/[^/]+/[^/]+)/([^/]+)/(?:([a-z0-9]+_[a-z0-9]+)/)?(.+)$`)

// publish publishes the unpacked packages in a directory.
func publish(ts *testscript.TestScript, dir fs.FS) {
	type release struct{ provider, version, platform string }
	found := map[release]map[string]string{} // contents by path
	ts.Check(fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		m := packageFile.FindStringSubmatch(name)
		if m == nil {
			return fmt.Errorf("%s: not in HOST/NAMESPACE/TYPE/VERSION", name)
		}
		key := release{m[1], m[2], m[3]}
		if found[key] == nil {
			found[key] = map[string]string{}
		}
		content, err := fs.ReadFile(dir, name)
		found[key][m[4]] = string(content)
		return err
	}))
	for key, files := range found {
		r := sourcetest.Release{Files: files}
		if key.platform != "" {
			r.Platforms = []string{key.platform}
		}
		world(ts).Add(key.provider, key.version, r)
	}
}

// parseFault parses a fault with a word for each field, in lower case: *.zip times=1 cut=100. A word without a value is
// a path or a switch. The word replace=OLD->NEW edits bodies.
func parseFault(words ...string) (f sourcetest.Fault, err error) {
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		field := func() any {
			field := reflect.ValueOf(&f).Elem().FieldByNameFunc(func(n string) bool { return strings.ToLower(n) == name })
			if !field.IsValid() {
				return nil
			}
			return field.Addr().Interface()
		}
		if _, isSwitch := field().(*bool); !ok && !isSwitch {
			name, value = "path", word
		}
		switch field := field().(type) {
		case *string:
			*field = value
		case *bool:
			*field = true
		case *int:
			*field, err = strconv.Atoi(value)
		case *int64:
			*field, err = strconv.ParseInt(value, 10, 64)
		case *time.Duration:
			*field, err = time.ParseDuration(value)
		default:
			before, after, ok := strings.Cut(value, "->")
			if !ok || name != "replace" {
				err = errors.New("no such field")
			}
			f.Edit = sourcetest.Replace(before, after)
		}
		if err != nil {
			return f, fmt.Errorf("fault %s: %w", word, err)
		}
	}
	return f, nil
}

func key(ts *testscript.TestScript, name string) *sourcetest.Key {
	keys := map[string]func() *sourcetest.Key{
		"publisher": sourcetest.Publisher, "stranger": sourcetest.Stranger,
		"expired": sourcetest.Expired, "revoked": sourcetest.Revoked,
	}
	if keys[name] == nil {
		ts.Fatalf("no key %s", name)
	}
	return keys[name]()
}

func serverCommand(ts *testscript.TestScript, s *sourcetest.Server, args []string) {
	if len(args) == 0 {
		ts.Fatalf("want a flag, such as -fault")
	}
	switch args[0] {
	case "-fault":
		f, err := parseFault(args[1:]...)
		ts.Check(err)
		s.Fault(f)
	case "-mend":
		s.Mend()
	case "-hide":
		s.Hide(args[1:]...)
	case "-token":
		s.RequireToken(args[1])
	case "-token-everywhere":
		s.RequireHeader("Authorization", "Bearer "+args[1])
	case "-presign":
		s.PresignArchives(number(ts, args[1]))
	case "-require":
		s.RequireHeader(args[1], args[2])
	case "-client":
		cert, key := s.RequireCertificate()
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), append(cert, key...), 0o600))
	case "-authority":
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), s.OwnAuthority(), 0o644))
	case "-published": // HOST/NAMESPACE/TYPE/VERSION, and when or how long ago; empty means that it isn't stated
		s.Publish(args[1], moment(ts, args[2]))
	case "-serve":
		s.ServeDir(ts.MkAbs(args[1]))
	case "-stop":
		s.Stop()
	default:
		ts.Fatalf("unknown %s", args[0])
	}
}

// seen makes the ledger below a directory have first seen a version of a provider so long ago, with the record key of
// the environment.
func seen(ts *testscript.TestScript, _ bool, args []string) {
	key, err := seal.ParseKey(ts.Getenv("LARDER_RECORD_KEY"))
	ts.Check(err)
	p, err := sources.ParseProvider(args[1], sources.Terraform)
	ts.Check(err)
	v, err := sources.ParseVersion(args[2])
	ts.Check(err)
	ledger := age.New(age.Options{Dir: ts.MkAbs(args[0]), Key: key, Now: func() time.Time { return moment(ts, args[3]) }})
	ledger.With(age.Registry{}).See(story(ts).t.Context(), p, sources.Listing{Vouched: []sources.Version{v}})
	ledger.Close()
}

// moment parses a time, or how long ago it was in days or as Go writes durations.
func moment(ts *testscript.TestScript, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		return time.Now().AddDate(0, 0, -number(ts, days))
	}
	ago, err := time.ParseDuration(text)
	ts.Check(err)
	return time.Now().Add(-ago)
}

func writeMirror(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("want -packed, -unpacked or -evidence, and a directory")
	}
	write := map[string]func(dir string, only ...string){
		"-packed": world(ts).WritePacked, "-unpacked": world(ts).WriteUnpacked, "-evidence": world(ts).WriteEvidence,
	}[args[0]]
	if write == nil {
		ts.Fatalf("unknown %s", args[0])
	}
	write(ts.MkAbs(args[1]), args[2:]...)
}

func requests(ts *testscript.TestScript, _ bool, args []string) {
	switch {
	case args[0] == "-forget":
		world(ts).Registry.Forget()
		world(ts).Mirror.Forget()
		world(ts).OCI().Forget()
	case args[0] == "-bytes" && len(args) == 4:
		sum := total(made(ts, args[1]))
		if sum < int64(number(ts, args[2])) || sum > int64(number(ts, args[3])) {
			ts.Fatalf("%d bytes were sent", sum)
		}
	case args[0] == "-header" && len(args) == 4:
		all := made(ts, args[1])
		if len(all) == 0 || all[len(all)-1].Header.Get(args[2]) != args[3] {
			ts.Fatalf("not so: %v", all)
		}
	case args[0] == "-client" && len(args) == 3:
		all := made(ts, args[1])
		if len(all) == 0 {
			ts.Fatalf("no %s was asked for", args[1])
		}
		for _, r := range all {
			if r.Client != args[2] {
				ts.Fatalf("%s: by %q", r, r.Client)
			}
		}
	case args[0] == "-distinct" && len(args) == 3:
		paths := map[string]bool{}
		for _, r := range made(ts, args[1]) {
			paths[r.Path] = true
		}
		if len(paths) != number(ts, args[2]) {
			ts.Fatalf("requests for %d files were made: %v", len(paths), made(ts, args[1]))
		}
	default:
		all := made(ts, args[:len(args)-1]...)
		if len(all) != number(ts, args[len(args)-1]) {
			ts.Fatalf("%d requests were made: %v", len(all), all)
		}
	}
}

// await waits for requests, or for bytes of their answers.
func await(ts *testscript.TestScript, _ bool, args []string) {
	want, kind := number(ts, args[len(args)-1]), args[len(args)-2]
	waitFor(ts, strings.Join(args, " "), func() bool {
		all := made(ts, kind)
		return args[0] != "-bytes" && len(all) >= want || args[0] == "-bytes" && total(all) >= int64(want)
	})
}

// total is how many bytes the answers had.
func total(all []sourcetest.Request) int64 {
	sum := int64(0)
	for _, r := range all {
		sum += r.Bytes
	}
	return sum
}

// made are the requests of some kinds, or all.
func made(ts *testscript.TestScript, names ...string) []sourcetest.Request {
	var kinds []sourcetest.Kind
	for _, name := range names {
		kinds = append(kinds, sourcetest.Kind(name))
	}
	w := world(ts)
	return slices.Concat(w.Registry.Requests(kinds...), w.Mirror.Requests(kinds...), w.OCI().Requests(kinds...))
}

func number(ts *testscript.TestScript, word string) int {
	n, err := strconv.Atoi(word)
	ts.Check(err)
	return n
}

func fails(ts *testscript.TestScript, _ bool, args []string) {
	want := number(ts, args[0])
	if args[1] == "larder" && want > 0 {
		a := runLarder(ts, args[2:]...)
		a.show(ts)
		if a.Status != want {
			ts.Fatalf("want exit status %d, got %d", want, a.Status)
		}
		return
	}
	exit, ok := errors.AsType[*exec.ExitError](ts.Exec(args[1], args[2:]...))
	if !ok || exit.ExitCode() != want {
		ts.Fatalf("want exit status %d, got %v", want, exit)
	}
}

// problems checks lock files, and requires a number of problems that are the same in text and in JSON.
func problems(ts *testscript.TestScript, _ bool, args []string) {
	check := append([]string{"lock", "--check"}, args[1:]...)
	var text, objects []string
	for row := range strings.Lines(found(ts, check...)) {
		text = append(text, strings.Join(regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(row), -1), "|"))
	}
	for row := range strings.Lines(found(ts, append(check, "--json")...)) {
		if !strings.HasPrefix(row, `{"type":"finding",`) {
			continue
		}
		var p report.Finding
		ts.Check(json.Unmarshal([]byte(row), &p))
		place, err := filepath.Rel(ts.MkAbs("."), p.File)
		ts.Check(err)
		if p.Line > 0 {
			place += ":" + strconv.Itoa(p.Line)
		}
		objects = append(objects, place+"|"+p.Provider+" "+p.Version+"|"+p.Text)
	}
	if strconv.Itoa(len(text)) != args[0] || !slices.Equal(text, objects) {
		ts.Fatalf("text has %q, and JSON has %q", text, objects)
	}
}

// found is the output of larder, whose exit status says that it has found something.
func found(ts *testscript.TestScript, args ...string) string {
	a := runLarder(ts, args...)
	if a.Status != 3 {
		ts.Fatalf("want exit status 3, got %d:\n%s", a.Status, a.Stderr)
	}
	return string(a.Stdout)
}

// interrupt does what control-C does, once a request of some kind is made.
func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	made := func() bool { return len(world(ts).Registry.Requests(sourcetest.Kind(args[0]))) > 0 }
	waitFor(ts, "a request for "+args[0], made)
	story(ts).background = ts.BackgroundCmds()
	for _, cmd := range story(ts).background {
		ts.Check(cmd.Process.Signal(os.Interrupt))
	}
}

// endedWith checks how what was interrupted has ended.
func endedWith(ts *testscript.TestScript, _ bool, args []string) {
	for _, cmd := range story(ts).background {
		if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
			ts.Fatalf("exit status %s", got)
		}
	}
}

// keyFiles is a command of scripts.
func keyFiles(ts *testscript.TestScript, _ bool, args []string) {
	k := sourcetest.NewKey(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".public"), []byte(k.Armor()), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".private"), []byte(k.PrivateArmor()), 0o600))
}

// signFile is a command of scripts.
func signFile(ts *testscript.TestScript, _ bool, args []string) {
	signature := sourcetest.NewKey(args[0]).Sign([]byte(ts.ReadFile(args[1])))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]+".sig"), signature, 0o644))
}

// zipCommand makes an archive.
func zipCommand(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	w := zip.NewWriter(f)
	ts.Check(errors.Join(w.AddFS(os.DirFS(ts.MkAbs(args[1]))), w.Close(), f.Close()))
}

// repo copies files and directories of the repository.
func repo(ts *testscript.TestScript, _ bool, args []string) {
	for _, arg := range args {
		if !copyIfThere(ts, filepath.Join(story(ts).repo, filepath.FromSlash(arg)), ts.MkAbs(arg)) {
			ts.Fatalf("the repository has no %s", arg)
		}
	}
}
