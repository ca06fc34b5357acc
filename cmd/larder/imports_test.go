package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

const module = "github.com/larder-cli/larder"

// mayImport lists the packages that each package may import. Dependencies point down only. Tests
// may also import sourcetest.
var mayImport = arrows(`
sources:
sources/age: sources sources/{policy,seal,store}
sources/archive: sources sources/archive/inflate sources/disk
sources/archive/inflate:
sources/bucket: sources sources/{disk,fetch}
sources/disk: sources
sources/evidence: sources sources/disk
sources/fetch: sources
sources/netmirror: sources sources/{evidence,fetch,trust}
sources/oci: sources sources/{evidence,fetch}
sources/policy: sources
sources/registry: sources sources/fetch
sources/seal: sources sources/disk
sources/sourcetest: sources sources/{disk,evidence}
sources/staging: sources sources/disk
sources/store: sources sources/{archive,disk,evidence,seal,staging}
sources/trust: sources sources/{disk,evidence,policy}
fsmirror: sources sources/{disk,evidence,trust}
fsmirror/builder: sources fsmirror sources/{archive,disk,evidence,seal,staging,store,trust}
fsmirror/bundle: sources fsmirror sources/{archive,disk,evidence,seal,store,trust} fsmirror/builder
fsmirror/publish: sources fsmirror sources/{bucket,disk,evidence,fetch,netmirror,oci,store,trust}
fsmirror/server: sources fsmirror sources/{disk,evidence,fetch,seal,trust}
fsmirror/legacy: sources fsmirror sources/{archive,disk,evidence}
fsmirror/server/endpoint: sources sources/disk
fsmirror/server/metrics: fsmirror/server
cachedir: sources sources/{archive,disk,evidence,seal,staging,store,trust}
cachedir/view: sources cachedir sources/disk
cliconfig: sources sources/{bucket,disk,fetch,oci,policy} cliconfig/{credentials,syntax}
cliconfig/credentials: sources sources/{disk,oci}
cliconfig/programs: sources cliconfig
cliconfig/syntax: sources
installer: sources sources/{archive,disk,fetch,policy,trust} installer/{acquire,lockfile}
installer/acquire: sources sources/{archive,disk,fetch,policy,trust}
installer/datadir: sources sources/disk
installer/hclfile: sources sources/disk
installer/lockfile: sources sources/disk installer/hclfile
installer/modules: sources sources/disk installer/hclfile
cmd/larder/ui: cliconfig
cmd/larder/ui/uitest:
cmd/larder/report/board: cmd/larder/ui sources sources/fetch installer/acquire
cmd/larder/report/webpage: cmd/larder/{report,ui} sources fsmirror/builder
cmd/larder/report: cmd/larder/report/board cmd/larder/ui sources cachedir installer sources/{disk,fetch,store,trust}
	fsmirror/{builder,bundle,legacy,publish,server} installer/acquire
cmd/larder/line: cmd/larder/{ui,report} sources
cmd/larder/site: cmd/larder/{report,ui} sources cachedir cliconfig fsmirror installer
	sources/{age,bucket,disk,fetch,netmirror,oci,policy,registry,seal,store,trust} cliconfig/programs
	fsmirror/{builder,legacy,publish} installer/{acquire,lockfile,modules}
cmd/larder/site/sitetest: sources cliconfig sources/sourcetest cmd/larder/{report,site}
cmd/larder/job: cmd/larder/{report,site,ui} cmd/larder/report/webpage sources cachedir cliconfig fsmirror installer
	sources/{archive,disk,policy,store,trust} cachedir/view fsmirror/{builder,bundle,publish}
	installer/{acquire,lockfile,modules}
cmd/larder/job/ask: cmd/larder/{job,report,site,ui} sources cachedir cliconfig fsmirror installer
	sources/{archive,disk,evidence,fetch,policy,trust} installer/{acquire,lockfile,modules}
cmd/larder/job/cache: cmd/larder/{job,report,site,ui} sources cachedir installer sources/{store,trust} installer/acquire
	fsmirror/bundle
cmd/larder/job/install: cmd/larder/{job,report,site,ui} sources cachedir cliconfig installer
	sources/{disk,policy,store} installer/{acquire,lockfile,modules}
cmd/larder/job/mirror: cmd/larder/{job,report,site,ui} sources cachedir fsmirror installer
	sources/{archive,disk,evidence,policy,store,trust} fsmirror/{builder,bundle,legacy,publish}
	installer/{acquire,datadir,lockfile}
cmd/larder/job/run: cmd/larder/{job,report,site,ui} sources cliconfig installer sources/{disk,trust} cachedir/view
	cliconfig/programs installer/{datadir,lockfile,modules}
cmd/larder/job/serve: cmd/larder/{job,report,site} cmd/larder/report/webpage sources cliconfig fsmirror
	sources/{disk,evidence,fetch,policy,trust} fsmirror/{builder,server} fsmirror/server/{endpoint,metrics}
	installer/acquire
cmd/larder: cmd/larder/{job,line,report,site,ui} cmd/larder/job/{ask,cache,install,mirror,run,serve} sources
	cachedir cliconfig installer sources/trust cliconfig/programs fsmirror/builder
`)

// arrows reads a list of packages, each with those that it may import. Names that begin alike are in braces.
func arrows(text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(strings.TrimSpace(text), "\n\t", " ")) {
		pkg, words, _ := strings.Cut(line, ":")
		all[pkg] = nil
		for _, word := range strings.Fields(words) {
			parent, names, _ := strings.Cut(strings.TrimSuffix(word, "}"), "{")
			for name := range strings.SplitSeq(names, ",") {
				all[pkg] = append(all[pkg], parent+name)
			}
		}
	}
	return all
}

// forTests are packages that only tests may import.
var forTests = []string{"sources/sourcetest", "cmd/larder/ui/uitest", "cmd/larder/site/sitetest"}

// doors are the packages that may import each library. They translate its errors into larder's
// words. The Go project's own libraries, golang.org/x/..., have no such limit.
var doors = map[string][]string{
	"github.com/ProtonMail/go-crypto":       {"sources/trust", "sources/sourcetest"},
	"github.com/adrg/xdg":                   {"cliconfig", "cmd/larder"}, // the latter in tests that change variables
	"github.com/apparentlymart/go-versions": {"sources"},                 // tests hold ours against it
	"github.com/aws/smithy-go":              {"sources/bucket"},
	"github.com/gofrs/flock":                {"cachedir"}, // tests lock as other programs do
	"github.com/hashicorp/go-version":       {"sources"},
	"github.com/hashicorp/hcl/hcl":          {"cliconfig/syntax"},
	"github.com/hashicorp/hcl/json":         {"cliconfig/syntax"},
	"github.com/hashicorp/hcl/v2": {
		"installer/hclfile", "installer/lockfile", "installer/modules", "sources/oci",
	},
	"github.com/hashicorp/terraform-svchost": {"sources"},
	"github.com/klauspost/compress":          {"sources/archive/inflate"},
	"github.com/rogpeppe/go-internal": { // tests as archives, and diffs
		"cliconfig", "cmd/larder", "cmd/larder/job/install", "cmd/larder/site",
		"cmd/larder/site/sitetest", "installer/modules",
	},
	"github.com/urfave/cli":                  {"cmd/larder/line"},
	"github.com/mattn/go-shellwords":         {"cliconfig", "cliconfig/programs"}, // what engines use, in their version
	"github.com/zclconf/go-cty":              {"installer/lockfile", "installer/modules", "sources/oci"},
	"go.yaml.in/yaml/v3":                     {"cmd/larder"}, // tests read recipes with it
	"github.com/google/go-containerregistry": {"sources/sourcetest"},
	"github.com/opencontainers":              {"sources/oci"},
	"gopkg.in/ini.v1":                        {"sources/bucket"},
	"oras.land/oras-go":                      {"sources/oci"},
}

// reserved are packages of the standard library that few packages may use. The others emit
// events, return errors, and receive their configuration as arguments.
var reserved = map[string][]string{
	"fmt.Print":   {"cmd/larder"},
	"fmt.Printf":  {"cmd/larder"},
	"fmt.Println": {"cmd/larder"},
	"os.Stdin":    {"cmd/larder", "cmd/larder/job/cache", "cmd/larder/job/run", "cmd/larder/report"},
	"os.Stdout":   {"cmd/larder"},
	"os.Stderr":   {"cmd/larder"},
	"os.Exit":     {"cmd/larder"},

	"os.Getenv":        {"cliconfig"},
	"os.LookupEnv":     {"cliconfig"},
	"os.ExpandEnv":     {"cliconfig"},
	"os.Environ":       {"cliconfig"},
	"os.UserHomeDir":   {"cliconfig"},
	"os.UserCacheDir":  {"cliconfig"},
	"os.UserConfigDir": {"cliconfig"},
}

func TestArrowsPointDown(t *testing.T) {
	for _, f := range goFiles(t) {
		known, ok := mayImport[f.pkg]
		sourcetest.Require(t, ok, "%s: package is not in mayImport", f.path)
		if f.test {
			known = slices.Concat(known, forTests, []string{f.pkg})
			switch f.pkg {
			case "cmd/larder": // tests of the program are about all of it
				known = slices.Collect(maps.Keys(mayImport))
			case "fsmirror/legacy": // what it imports goes into a mirror
				known = append(known, "fsmirror/builder", "sources/store")
			}
		}
		for _, imported := range f.imports {
			if inner, ok := strings.CutPrefix(imported, module+"/"); ok && !slices.Contains(known, inner) {
				t.Errorf("%s imports %s, which it may not know", f.path, inner)
			}
		}
	}
}

func TestLibrariesComeInByTheirDoors(t *testing.T) {
	libraries := slices.Collect(maps.Keys(doors))
	for _, f := range goFiles(t) {
		for _, imported := range f.imports {
			if isGo(imported) || strings.HasPrefix(imported, module+"/") {
				continue
			}
			i := slices.IndexFunc(libraries, func(l string) bool { return imported == l || strings.HasPrefix(imported, l+"/") })
			switch {
			case i < 0:
				t.Errorf("%s imports %s, which has no door", f.path, imported)
			case !slices.Contains(doors[libraries[i]], f.pkg):
				t.Errorf("%s imports %s, whose door is %v", f.path, imported, doors[libraries[i]])
			}
		}
	}
}

func TestOnlyTheCommandPrintsAndOnlyCLIConfigReadsTheEnvironment(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || slices.Contains(forTests, f.pkg) {
			continue
		}
		for _, name := range f.selectors() {
			if users, ok := reserved[name]; ok && !slices.Contains(users, f.pkg) {
				t.Errorf("%s uses %s, which is for %v", f.path, name, users)
			}
		}
		if slices.Contains(f.imports, "log") && f.path != "cmd/larder/main.go" { // which silences it
			t.Errorf("%s imports log", f.path)
		}
	}
}

// changes are the functions that change files or open them, by package. Those of os that open files wait for a pipe at
// the path; its ReadDir doesn't.
var changes = map[string]string{
	"os": `Chmod Chown Chtimes Create CreateTemp Lchown Link Mkdir MkdirAll MkdirTemp Open OpenFile OpenInRoot OpenRoot
		ReadFile Remove RemoveAll Rename Symlink Truncate WriteFile`,
	"syscall": `Chmod Creat Link Mkdir Mkfifo Mknod Mount Open Rename Rmdir Symlink Truncate Unlink Unmount Utimes
		UtimesNano`,
	"unix": `Chmod Creat Fchmodat IoctlFileClone IoctlFileCloneRange Link Linkat Mkdir Mkdirat Mkfifo Mkfifoat Mknod
		Mknodat Mount Open Openat Openat2 Rename Renameat Renameat2 RenameatxNp RenamexNp Rmdir Symlink Symlinkat Truncate
		Unlink Unlinkat Unmount Utimes UtimesNano UtimesNanoAt`,
	"windows": `CreateDirectory CreateHardLink CreateSymbolicLink DeleteFile MoveFile MoveFileEx RemoveDirectory Rename
		Rmdir SetFileAttributes Unlink`,
}

// Files are changed and opened by sources/disk, which never waits, except those of the system.
func TestOnlyDiskChangesFiles(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || f.pkg == "sources/disk" || slices.Contains(forTests, f.pkg) {
			continue
		}
		for _, selector := range f.selectors() {
			pkg, name, _ := strings.Cut(selector, ".")
			if slices.Contains(strings.Fields(changes[pkg]), name) {
				t.Errorf("%s uses %s, which is for sources/disk", f.path, selector)
			}
		}
	}
}

// asking are files outside sources/disk and cliconfig that may ask for the operating system, with the reason.
var asking = map[string]string{
	"cmd/larder/handover.go":        "cliconfig decides, for this system",
	"cmd/larder/job/run/exec.go":    "a script that Windows can run",
	"cmd/larder/site/rootmodule.go": "a command that Windows can run",
	"fsmirror/bundle/place.go":      "Windows has no execute permission",
	"sources/archive/names.go":      "names that Windows can't hold",
	"sources/archive/unpack.go":     "Windows can't remove read-only files",
	"sources/fetch/explain.go":      "hints name programs of the system",
	"sources/platform.go":           "the platform of this machine",
}

// What differs by operating system is in few packages, so that all others are tested on each system.
func TestSystemsDifferInFewPackages(t *testing.T) {
	asked := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test || f.pkg == "sources/disk" || strings.HasPrefix(f.pkg, "cliconfig") || slices.Contains(forTests, f.pkg) {
			continue
		}
		if slices.Contains(f.selectors(), "runtime.GOOS") {
			asked[f.path] = true
			sourcetest.Expect(t, asking[f.path] != "", "%s uses runtime.GOOS, which is for sources/disk and cliconfig", f.path)
		}
		for _, group := range f.syntax.Comments {
			if strings.HasPrefix(group.List[0].Text, "//go:build ") {
				t.Errorf("%s has a build constraint, and such files are in sources/disk and cliconfig", f.path)
			}
		}
		for _, system := range []string{"linux", "darwin", "windows", "freebsd", "unix", "other"} {
			if strings.HasSuffix(f.path, "_"+system+".go") {
				t.Errorf("%s is for one system, and such files are in sources/disk and cliconfig", f.path)
			}
		}
	}
	for path := range asking {
		sourcetest.Expect(t, asked[path], "%s no longer uses runtime.GOOS", path)
	}
}

// isGo reports whether an import path is the Go project's.
func isGo(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") || strings.HasPrefix(imported, "golang.org/x/")
}

// A goFile is a file of this module, whatever platform it is for.
type goFile struct {
	path    string // relative to the module
	pkg     string // directory it is in
	test    bool
	imports []string
	syntax  *ast.File
}

// selectors are the names of other packages that a file uses, such as os.Exit.
func (f goFile) selectors() []string {
	var names []string
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := selector.X.(*ast.Ident); ok {
				names = append(names, pkg.Name+"."+selector.Sel.Name)
			}
		}
		return true
	})
	return names
}

// goFiles are all Go files of the module but for those in testdata, and in
// scripts, which are programs of their own that no one else gets.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	const root = "../.."
	var files []goFile
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		others := base == "testdata" || base == "scripts" || base[0] == '.' || base[0] == '_'
		if entry.IsDir() && name != root && others {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := goFile{path: filepath.ToSlash(relative), test: strings.HasSuffix(name, "_test.go"), syntax: syntax}
		f.pkg = path.Dir(f.path)
		for _, spec := range syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imported)
		}
		files = append(files, f)
		return nil
	})
	sourcetest.Check(t, err)
	return files
}
