package bundle_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// write writes files below a directory. A name that ends with * is an executable.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		plain := strings.TrimSuffix(name, "*")
		file := filepath.Join(dir, filepath.FromSlash(plain))
		check(t, os.MkdirAll(filepath.Dir(file), 0o755))
		mode := map[bool]fs.FileMode{true: 0o755, false: 0o644}[plain != name]
		check(t, os.WriteFile(file, []byte(text), mode))
		check(t, os.Chmod(file, mode))
	}
}

// files returns the files below a directory, as for write. It returns links as such.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := sourcetest.Must(filepath.Rel(dir, at))(t)
		info := sourcetest.Must(e.Info())(t)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			all[name] = "a link"
			return nil
		case info.Mode()&0o111 != 0:
			name += "*"
		}
		all[filepath.ToSlash(name)] = string(readFile(t, at))
		return nil
	})
	check(t, err)
	return all
}

const listed = `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"vpc","Source":"app.test/a/vpc/x","Version":"1.0.0","Dir":".terraform/modules/vpc"}]}`

// workspace creates two root modules with modules, live/net and ., and an engine.
func workspace(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, root := range []string{".", "live/net"} {
		write(t, filepath.Join(dir, root, ".terraform", "modules"), map[string]string{
			"modules.json": listed, "vpc/main.tf": "# " + root, "vpc/scripts/run.sh*": "#!/bin/sh\n",
			"vpc/.git/config": "secret", "vpc/sub/.git": "gitdir: ../.git",
		})
	}
	write(t, dir, map[string]string{"bin/tofu*": "the engine"})
	return dir
}

func root(dir, path string) bundle.Root {
	at := filepath.Join(dir, filepath.FromSlash(path))
	return bundle.Root{Path: path, Dir: at, DataDir: filepath.Join(at, ".terraform")}
}

func gathered(t testing.TB, dir string) []bundle.Payload {
	t.Helper()
	roots := []bundle.Root{root(dir, "live/net"), root(dir, "."), root(dir, "none")}
	return sourcetest.Must(bundle.Gather(ctx, roots, filepath.Join(dir, "bin", "tofu"), ignore))(t)
}

// payloadOptions are options for a bundle with the payloads of a workspace.
func payloadOptions(t testing.TB) bundle.CreateOptions {
	t.Helper()
	opts := createOptions()
	opts.Payload = gathered(t, workspace(t))
	return opts
}

// placed is what an import of a bundle with these options puts below modules/ and engine/.
var placed = map[string]string{
	"modules/.terraform/modules/modules.json":                 listed,
	"modules/.terraform/modules/vpc/main.tf":                  "# .",
	"modules/.terraform/modules/vpc/scripts/run.sh*":          "#!/bin/sh\n",
	"modules/live/net/.terraform/modules/modules.json":        listed,
	"modules/live/net/.terraform/modules/vpc/main.tf":         "# live/net",
	"modules/live/net/.terraform/modules/vpc/scripts/run.sh*": "#!/bin/sh\n",
	"engine/tofu*": "the engine",
}

func placeOptions(to string) bundle.ImportOptions {
	opts := importOptions()
	opts.ModulesTo, opts.EngineTo = filepath.Join(to, "modules"), filepath.Join(to, "engine")
	opts.EngineSHA256 = sha256.Sum256([]byte("the engine"))
	return opts
}

func hows(i bundle.Imported) string {
	var all []string
	for _, p := range i.Placed {
		all = append(all, fmt.Sprintf("%s: %s", p, p.How))
	}
	return strings.Join(all, ", ")
}

func TestPayload(t *testing.T) {
	sourcetest.SkipOnWindows(t, "no modes and links there")
	from := mirrored(t, published(t))
	file := created(t, from, payloadOptions(t))
	to := t.TempDir()

	// A dry run changes nothing.
	opts := placeOptions(to)
	opts.ReadOnly = true
	i := sourcetest.Must(bundle.Import(ctx, file, filepath.Join(to, "mirror"), opts))(t)
	sourcetest.Equal(t, hows(i), "engine tofu: imported, modules of .: imported, modules of live/net: imported")
	sourcetest.Equal(t, len(files(t, to)), 0, "files")

	// Without a request, payloads are not imported.
	i = sourcetest.Must(bundle.Import(ctx, file, t.TempDir(), importOptions()))(t)
	sourcetest.Expect(t, len(i.Placed) == 0 && len(i.Left) == 3, "%v", i)

	opts.ReadOnly = false
	mirror := t.TempDir()
	sourcetest.Must(bundle.Import(ctx, file, mirror, opts))(t)
	sourcetest.Expect(t, maps.Equal(files(t, to), placed), "got %q", files(t, to))
	alike(t, mirror, indexed(t, from))

	// The second import changes nothing.
	i = sourcetest.Must(bundle.Import(ctx, file, mirror, opts))(t)
	sourcetest.Equal(t, hows(i), "engine tofu: already there, modules of .: already there, modules of live/net: already there")

	v := sourcetest.Must(bundle.Verify(ctx, file, judge, nil))(t)
	sourcetest.Expect(t, len(v.Payload) == 3 && len(v.Findings) == 0, "%v", v)
}

// Modules and engines that differ are replaced on request only, and none of the bundle is
// imported otherwise.
func TestPayloadThatDiffers(t *testing.T) {
	file := created(t, mirrored(t, published(t)), payloadOptions(t))
	for name, change := range map[string]func(to string){
		"contents": func(to string) { write(t, to, map[string]string{"modules/.terraform/modules/vpc/main.tf": "# x"}) },
		"more":     func(to string) { write(t, to, map[string]string{"modules/.terraform/modules/x": ""}) },
		"less":     func(to string) { check(t, os.Remove(filepath.Join(to, "modules/.terraform/modules/vpc/main.tf"))) },
		"mode": func(to string) {
			check(t, os.Chmod(filepath.Join(to, "modules/.terraform/modules/vpc/main.tf"), 0o755))
		},
		"a file":        func(to string) { replaceWith(t, filepath.Join(to, "modules/.terraform/modules")) },
		"engine":        func(to string) { write(t, to, map[string]string{"engine/tofu*": "the Engine"}) },
		"not an engine": func(to string) { check(t, os.Chmod(filepath.Join(to, "engine/tofu"), 0o644)) },
		"link": func(to string) {
			name := filepath.Join(to, "engine/tofu")
			check(t, os.Rename(name, name+"-1"))
			check(t, sourcetest.Symlink(t, "tofu-1", name))
		},
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.SkipOnWindows(t, "no modes and links there")
			to := t.TempDir()
			write(t, to, placed)
			change(to)
			before := files(t, to)
			mirror := filepath.Join(t.TempDir(), "mirror")
			opts := placeOptions(to)
			_, err := bundle.Import(ctx, file, mirror, opts)
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "differs from the bundle's "), "%v", err)
			sourcetest.Expect(t, maps.Equal(before, files(t, to)), "something changed")
			_, err = os.Stat(mirror)
			sourcetest.Expect(t, os.IsNotExist(err), "the mirror was created")
			opts.Replace = true
			sourcetest.Must(bundle.Import(ctx, file, mirror, opts))(t)
			now := files(t, to)
			delete(now, "engine/tofu-1*")
			sourcetest.Expect(t, maps.Equal(placed, now), "got %q", now)
		})
	}
}

// A directory instead of an engine stays: an import cannot know what it contains.
func TestEngineReplacesNoDirectory(t *testing.T) {
	file := created(t, mirrored(t, published(t)), payloadOptions(t))
	to, mirror := t.TempDir(), filepath.Join(t.TempDir(), "mirror")
	write(t, to, map[string]string{"engine/tofu/main.tf": "# configuration"})
	opts := placeOptions(to)
	for _, opts.Replace = range []bool{false, true} {
		_, err := bundle.Import(ctx, file, mirror, opts)
		sourcetest.Expect(t, err != nil && strings.HasSuffix(err.Error(), "tofu is a directory"), "%v", err)
		sourcetest.Equal(t, files(t, to)["engine/tofu/main.tf"], "# configuration")
		_, err = os.Stat(mirror)
		sourcetest.Expect(t, os.IsNotExist(err), "the mirror was created")
	}
}

// If another import has put the same payloads in place in the meantime, they are there.
func TestPayloadThatArrivesMeanwhile(t *testing.T) {
	sourcetest.SkipOnWindows(t, "no modes and links there")
	file := created(t, mirrored(t, published(t)), payloadOptions(t))
	for name, arrives := range map[string]map[string]string{
		"same":  placed,
		"other": {"engine/tofu*": "another engine"},
	} {
		t.Run(name, func(t *testing.T) {
			to, mirror := t.TempDir(), t.TempDir()
			opts := placeOptions(to)
			opts.Accept = func([]sources.Stored) error {
				write(t, to, arrives)
				return nil
			}
			i, err := bundle.Import(ctx, file, mirror, opts)
			if name == "other" {
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "differs from the bundle's engine tofu"), "%v", err)
				return
			}
			check(t, err)
			sourcetest.Equal(t, hows(i), "engine tofu: already there, modules of .: already there, modules of live/net: already there")
			sourcetest.Expect(t, maps.Equal(files(t, to), placed), "got %q", files(t, to))
		})
	}
}

func replaceWith(t testing.TB, dir string) {
	t.Helper()
	check(t, os.RemoveAll(dir))
	check(t, os.WriteFile(dir, nil, 0o644))
}

// An import follows no link below the directories that the user named.
func TestPayloadFollowsNoLink(t *testing.T) {
	sourcetest.SkipOnWindows(t, "no modes and links there")
	file := created(t, mirrored(t, published(t)), payloadOptions(t))
	to, elsewhere := t.TempDir(), t.TempDir()
	check(t, os.MkdirAll(filepath.Join(to, "modules", "live"), 0o755))
	check(t, sourcetest.Symlink(t, elsewhere, filepath.Join(to, "modules", "live", "net")))
	_, err := bundle.Import(ctx, file, t.TempDir(), placeOptions(to))
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "is a symbolic link to"), "%v", err)
	sourcetest.Expect(t, len(files(t, elsewhere)) == 0, "written through a link")
}

// Links to files and directories of the modules are replaced with these.
func TestGatherLinks(t *testing.T) {
	sourcetest.SkipOnWindows(t, "no modes and links there")
	tests := []struct{ name, link, to, want string }{
		{"file", "vpc/x.tf", "main.tf", ""},
		{"directory", "vpc/x", "scripts", ""},
		{"nowhere", "vpc/x.tf", "missing.tf", ""},
		{"outside", "vpc/x.tf", "../../../../../bin/tofu", "is a link to"},
		{"absolute", "vpc/x.tf", "/etc/passwd", "is a link to /etc/passwd, which is outside"},
		{"repository", "vpc/x.tf", ".git/config", "is a link to"},
		{"above", "vpc/x", "..", "is a link to a directory that contains it"},
		{"itself", "vpc/x", "x", "too many links"},
		{"other case", "vpc/MAIN.tf", "main.tf", "only in case"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := workspace(t)
			modules := filepath.Join(dir, "live/net/.terraform/modules")
			check(t, sourcetest.Symlink(t, test.to, filepath.Join(modules, test.link)))
			var warned []error
			all, err := bundle.Gather(ctx, []bundle.Root{root(dir, "live/net")}, "", func(err error) { warned = append(warned, err) })
			if test.want != "" {
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want), "%v", err)
				return
			}
			check(t, err)
			var names []string
			for _, f := range all[0].Files {
				names = append(names, f.Name)
			}
			want := map[string][]string{"file": {"vpc/x.tf"}, "directory": {"vpc/x/run.sh"}}[test.name]
			want = append([]string{"modules.json", "vpc/main.tf", "vpc/scripts/run.sh"}, want...)
			sourcetest.EqualSlices(t, names, want)
			sourcetest.Equal(t, len(warned) == 1, test.name == "nowhere", "warned")
		})
	}
}

// The list of modules refers to the data directory of the receiver.
func TestGatherOtherDataDir(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"relative": "data", "absolute": filepath.ToSlash(dir) + "/elsewhere"} {
		t.Run(name, func(t *testing.T) {
			r := bundle.Root{Path: ".", Dir: dir, DataDir: filepath.FromSlash(data)}
			if !filepath.IsAbs(data) {
				r.DataDir = filepath.Join(dir, data)
			}
			write(t, filepath.Join(r.DataDir, "modules"), map[string]string{
				"modules.json": strings.ReplaceAll(listed, ".terraform/modules", data+"/modules"), "vpc/main.tf": "",
			})
			opts := createOptions()
			opts.Payload = sourcetest.Must(bundle.Gather(ctx, []bundle.Root{r}, "", ignore))(t)
			to := t.TempDir()
			sourcetest.Must(bundle.Import(ctx, created(t, mirrored(t, published(t)), opts), t.TempDir(), placeOptions(to)))(t)
			var got, want any
			check(t, json.Unmarshal([]byte(files(t, to)["modules/.terraform/modules/modules.json"]), &got))
			check(t, json.Unmarshal([]byte(listed), &want))
			sourcetest.Equal(t, fmt.Sprint(got), fmt.Sprint(want))
		})
	}
}

func TestGatherRefuses(t *testing.T) {
	tests := []struct {
		name   string
		engine string
		change func(modules string)
		want   string
	}{
		{"odd name", "", func(m string) { write(t, m, map[string]string{"a\nb": ""}) }, "some file systems cannot store"},
		{"no engine", "missing", func(string) {}, "no such file"},
		{"directory as engine", "live", func(string) {}, "not a regular file"},
		{"empty engine", "tofu", func(m string) { write(t, m, map[string]string{"../../../../tofu": ""}) }, "is empty"},
		{"another program", "git", func(m string) { write(t, m, map[string]string{"../../../../git": "x"}) }, `engine "git" does not have the name of an engine`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sourcetest.SkipOnWindows(t, "no modes and links there")
			dir := workspace(t)
			test.change(filepath.Join(dir, "live/net/.terraform/modules"))
			engine := test.engine
			if engine != "" {
				engine = filepath.Join(dir, engine)
			}
			_, err := bundle.Gather(ctx, []bundle.Root{root(dir, "live/net")}, engine, ignore)
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want), "%v", err)
		})
	}
}

// Writing a bundle fails if one of its files changes at the same time.
func TestPayloadChanges(t *testing.T) {
	dir := workspace(t)
	opts := createOptions()
	opts.Payload = gathered(t, dir)
	write(t, dir, map[string]string{"bin/tofu*": "another one"})
	out := t.TempDir()
	_, err := bundle.Create(ctx, mirrored(t, published(t)), filepath.Join(out, "b"), opts)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "tofu differs from what was stored"), "%v", err)
	sourcetest.Equal(t, len(files(t, out)), 0, "files")
}

// editPayload changes the payloads in the manifest. The members stay.
func editPayload(change func([]any) []any) func([]entry) []entry {
	return editDocument(func(doc map[string]any) { doc["payload"] = change(doc["payload"].([]any)) })
}

// set sets a member of a payload of the workspace, which are: engine, modules of ., modules
// of live/net.
func set(payload int, name string, value any) func([]entry) []entry {
	return editPayload(func(all []any) []any {
		all[payload].(map[string]any)[name] = value
		return all
	})
}

// setFile sets a member of a file of a payload.
func setFile(payload, file int, name string, value any) func([]entry) []entry {
	return editPayload(func(all []any) []any {
		all[payload].(map[string]any)["files"].([]any)[file].(map[string]any)[name] = value
		return all
	})
}

func TestRefusedPayload(t *testing.T) {
	sourcetest.SkipOnWindows(t, "no modes and links there")
	opts := payloadOptions(t)
	good := readFile(t, created(t, mirrored(t, published(t), "*/widget/1.0.0/*"), opts))
	last := func(change func(*entry)) func([]entry) []entry {
		return func(all []entry) []entry {
			change(&all[len(all)-1])
			return all
		}
	}
	for _, test := range []struct {
		name   string
		change func([]entry) []entry
		want   string
	}{
		{"root upwards", set(2, "root", "../net"), "not a path inside a directory"},
		{"absolute root", set(2, "root", "/etc"), "not a path inside a directory"},
		{"root not clean", set(2, "root", "live//net"), "not a path inside a directory"},
		{"root with a drive's separator", set(2, "root", `live\net`), "a character that"},
		{"no root", set(2, "root", ""), "not a path inside a directory"},
		{"root in another's modules", set(2, "root", ".terraform/modules/vpc/main.tf"), "name is both a file and a directory"},
		{"root in a repository", set(2, "root", ".git/modules"), "part of a git repository"},
		{"same root", set(2, "root", "."), "listed twice, or out of order"},
		{"unknown kind", set(0, "kind", "hook"), "unknown kind of payload \"hook\""},
		{"engine with a root", set(0, "root", "live"), "is not a single executable"},
		{"two engines", editPayload(func(all []any) []any { return append([]any{all[0]}, all...) }), "listed twice, or out of order"},
		{"out of order", editPayload(func(all []any) []any { slices.Reverse(all); return all }), "listed twice, or out of order"},
		{"engine called git", setFile(0, 0, "name", "git"), "does not have the name of an engine"},
		{"engine called .bashrc", setFile(0, 0, "name", ".bashrc"), "does not have the name of an engine"},
		{"engine called terraform-provider-x", setFile(0, 0, "name", "terraform-provider-x"), "does not have the name of an engine"},
		{"engine elsewhere", setFile(0, 0, "name", "../tofu"), "is not a single executable"},
		{"engine called ..", setFile(0, 0, "name", ".."), "does not have the name of an engine"},
		{"engine that cannot run", setFile(0, 0, "executable", false), "is not a single executable"},
		{"no files", set(1, "files", []any{}), "a payload has no files"},
		{"no list of modules", setFile(1, 0, "name", "modules.jso"), "modules.json is missing"},
		{"file upwards", setFile(1, 1, "name", "../../../.bashrc"), "not a path inside a directory"},
		{"absolute file", setFile(1, 1, "name", "/etc/passwd"), "not a path inside a directory"},
		{"hook", setFile(1, 1, "name", "vpc/.git/hooks/post-checkout"), "part of a git repository"},
		{"hook in another case", setFile(1, 1, "name", "vpc/.GIT/hooks/post-checkout"), "part of a git repository"},
		{"escape sequence", setFile(1, 1, "name", "vpc/\x1b[2J"), "a character that"},
		{"file twice", setFile(1, 1, "name", "modules.json"), "listed twice"},
		{"other case", setFile(1, 2, "name", "vpc/scripts/../main.tf"), "not a path inside a directory"},
		{"case collision", setFile(1, 1, "name", "vpc/SCRIPTS"), "only in case"},
		{"case collision of directories", setFile(1, 1, "name", "vpC/main.tf"), "only in case"},
		{"file that is a directory", setFile(1, 1, "name", "vpc"), "name is both a file and a directory"},
		{"long name", setFile(1, 1, "name", "vpc/"+strings.Repeat("a/", 3000)+"b"), "not a path inside a directory"},
		{"negative size", setFile(1, 1, "size", -1), "invalid size"},
		{"huge", setFile(1, 1, "size", 1<<50), "invalid size"},
		{"other size", setFile(1, 1, "size", 4), notHere},
		{"no checksum", setFile(1, 1, "sha256", ""), "is malformed"},
		{"other checksum", setFile(1, 1, "sha256", strings.Repeat("0", 64)), "vpc/main.tf: differs from the manifest"},
		{"other mode", setFile(1, 1, "executable", true), notHere},
		{"payload left out", editPayload(func(all []any) []any { return all[:2] }), "too long"},
		{"other contents", last(func(e *entry) { e.Text = strings.ToUpper(e.Text) }), "differs from the manifest"},
		{"before the packages", func(all []entry) []entry { n := len(all) - 1; return slices.Insert(all[:n:n], 1, all[n]) }, "where"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, to := packTar(t, test.change(unpackTar(t, good))), t.TempDir()
			refused(t, data, test.want)
			refusedWith(t, placeOptions(to), data, test.want)
			entries, err := os.ReadDir(to)
			sourcetest.Expect(t, err == nil && len(entries) == 0, "it left %v", entries)
		})
	}
}
