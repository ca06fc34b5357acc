package programs_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mattn/go-shellwords"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestInvocation(t *testing.T) {
	for _, tt := range []struct {
		line string // words
		env  []string
		want programs.Invocation
	}{
		{"terraform init", nil, programs.Invocation{Engine: terraform, Init: true}},
		{"/opt/tofu_1.12.6 -chdir=live init", nil, programs.Invocation{Engine: tofu, Init: true, Dir: "live"}},
		{"terraform1.5.7 -chdir=a -chdir=b init", nil, programs.Invocation{Engine: terraform, Dir: "b", Unforeseen: "init (a flag before init)"}},
		{"terraform plan -upgrade", nil, programs.Invocation{Engine: terraform}},
		{"terraform", nil, programs.Invocation{Engine: terraform, NoCommand: true, NoProviders: true}},
		{"tofu -chdir=live fmt -recursive", nil, programs.Invocation{Engine: tofu, Dir: "live", NoProviders: true}},
		{"terraform -version init", nil, programs.Invocation{Engine: terraform, NoProviders: true}},
		{"terraform init -upgrade", nil, programs.Invocation{Engine: terraform, Init: true, Upgrade: true}},
		{"terraform init --upgrade=true -upgrade=false", nil, programs.Invocation{Engine: terraform, Init: true}},
		{"terraform init -backend=false", nil, programs.Invocation{Engine: terraform, Init: true, NoBackend: true}},
		{"terraform init -backend=true", []string{"TF_CLI_ARGS_init=-backend=0"}, programs.Invocation{Engine: terraform, Init: true}},
		{"tofu init --cloud=false", nil, programs.Invocation{Engine: tofu, Init: true, NoBackend: true}},
		{"terraform init -upgrade=0 -get=false", nil, programs.Invocation{Engine: terraform, Init: true, KeepModules: true}},
		{"terraform init -lockfile=readonly -plugin-dir x -plugin-dir=", nil, programs.Invocation{Engine: terraform, ReadOnlyLock: true, PluginDirs: []string{"x", ""}, Unforeseen: "init (invalid value \"\" for flag -plugin-dir: no directory)"}},
		{"terraform init -backend-config upgrade -test-directory checks", nil, programs.Invocation{Engine: terraform, Init: true, TestDir: "checks"}},
		{"tofu init -var a=1 -var-file=x.tfvars", []string{"TF_CLI_ARGS_init=-var=b=2"}, programs.Invocation{Engine: tofu, Init: true, Variables: []string{"-var=b=2", "-var=a=1", "-var-file=x.tfvars"}}},
		{"terraform init -plugin-dir", nil, programs.Invocation{Engine: terraform, Unforeseen: "init (flag needs an argument: -plugin-dir)"}},
		{"terraform init -from-module x", nil, programs.Invocation{Engine: terraform, Unforeseen: "init -from-module"}},
		{"terraform init -from-module=", nil, programs.Invocation{Engine: terraform, Init: true}},
		{"terraform init -help", nil, programs.Invocation{Engine: terraform, NoProviders: true}},
		{"terraform init", []string{"TF_CLI_ARGS_init=-upgrade -plugin-dir='a b'", "TF_CLI_ARGS=-lockfile=readonly"}, programs.Invocation{
			Engine: terraform, Init: true, Upgrade: true, ReadOnlyLock: true, PluginDirs: []string{"a b"},
		}},
		{"terraform init", []string{"TF_CLI_ARGS_init=-get=false; -upgrade"}, programs.Invocation{Engine: terraform, Init: true, KeepModules: true}},
		{"terraform init", []string{"TF_CLI_ARGS_init=-test-directory 'a;b' & -upgrade"}, programs.Invocation{Engine: terraform, Init: true, TestDir: "a;b"}},
		{"make plan", []string{"TF_CLI_ARGS_init=-upgrade", "TF_CLI_ARGS=-plugin-dir=x"}, programs.Invocation{Wrapper: true, Upgrade: true, PluginDirs: []string{"x"}}},
		{"terragrunt plan", []string{"TF_CLI_ARGS_init=-upgrade"}, programs.Invocation{Wrapper: true, Upgrade: true}},
		{"terraform init -upgrade=false", []string{"TF_CLI_ARGS_init=-upgrade"}, programs.Invocation{Engine: terraform, Init: true}},
		{"terraform plan", []string{"TF_CLI_ARGS_init=-upgrade"}, programs.Invocation{Engine: terraform}},
		{"terraform init", []string{"TG_PROVIDER_CACHE=1"}, programs.Invocation{Engine: terraform, Init: true, ProviderCache: "TG_PROVIDER_CACHE"}},
		{"make plan", nil, programs.Invocation{Wrapper: true}},
		{"terraform-docs init", nil, programs.Invocation{Wrapper: true}},
		{"make", []string{"TERRAGRUNT_PROVIDER_CACHE=true"}, programs.Invocation{Wrapper: true, ProviderCache: "TERRAGRUNT_PROVIDER_CACHE"}},
		{"make", []string{"TG_PROVIDER_CACHE=false"}, programs.Invocation{Wrapper: true}},
		{"terragrunt run --all plan", nil, programs.Invocation{Wrapper: true}},
		{"terragrunt run --all init -- -upgrade", []string{"TG_TF_PATH=/shims/tofu"}, programs.Invocation{Wrapper: true, Engine: tofu, Upgrade: true, EnginePath: "/shims/tofu"}},
		{"terragrunt plan --working-dir=live --tf-path terraform1.9", []string{"TG_WORKING_DIR=x"}, programs.Invocation{Wrapper: true, Engine: terraform, Dir: "live", EnginePath: "terraform1.9"}},
		{"terraform init", []string{"TF_TOKEN_example_test=x-api-key:secret"}, programs.Invocation{Engine: terraform, Init: true, ProviderCache: "--provider-cache"}},
		{"terraform init", []string{"TF_TOKEN_example_test=X-API-Key:secret"}, programs.Invocation{Engine: terraform, Init: true, ProviderCache: "--provider-cache"}},
		{"terraform init", []string{"TF_TOKEN_example_test=x-api-key"}, programs.Invocation{Engine: terraform, Init: true}},
		{"terragrunt plan --provider-cache=true", nil, programs.Invocation{Wrapper: true, ProviderCache: "--provider-cache"}},
		{"terragrunt plan --provider-cache=false", nil, programs.Invocation{Wrapper: true}},
		{"terragrunt plan -provider-cache", nil, programs.Invocation{Wrapper: true, ProviderCache: "--provider-cache"}},
		{"terragrunt plan --provider-cache", nil, programs.Invocation{Wrapper: true, ProviderCache: "--provider-cache"}},
		{"terragrunt plan --tf-path /opt/my-engine", nil, programs.Invocation{Wrapper: true, EnginePath: "/opt/my-engine"}},
		{"terragrunt plan --tf-path bin/tofu", []string{"TG_TF_PATH=/bin/terraform"}, programs.Invocation{Wrapper: true, Engine: tofu, EnginePath: "bin/tofu"}},
		{"terraform init -unknown -h=1", nil, programs.Invocation{Engine: terraform, Unforeseen: "init (flag provided but not defined: -unknown)"}},
		{"tofu init -json-into -from-module=x --help", nil, programs.Invocation{Engine: tofu, NoProviders: true}},
		{"terraform  init", nil, programs.Invocation{Engine: terraform, Init: true}},
		{"terraform providers lock", nil, programs.Invocation{Engine: terraform, Downloads: "providers lock"}},
		{"terraform providers -json", []string{"TF_CLI_ARGS=mirror"}, programs.Invocation{Engine: terraform, Downloads: "providers mirror"}},
		{"terraform stacks init", nil, programs.Invocation{Engine: terraform, Downloads: "stacks"}},
		{"make plan", []string{"TG_TF_PATH=/bin/tofu"}, programs.Invocation{Wrapper: true, EnginePath: "/bin/tofu"}},
	} {
		got := programs.ReadLine(linux(map[string]string{"/start/x.tfvars": ""}, tt.env...), strings.Split(tt.line, " "))
		sourcetest.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", tt.want), "%s %v", tt.line, tt.env)
	}
	sourcetest.Equal(t, programs.EngineOf(cliconfig.Machine{GOOS: "windows"}, `C:\bin\Terraform.EXE`), sources.Engine(terraform), "on Windows")
}

// Larder is sure of a command line of init only if its flags are known. These arguments were tried with Terraform 1.5 to
// 1.16, and with OpenTofu 1.8 to 1.12.
func TestInvocationOfInit(t *testing.T) {
	const runs, isUnforeseen, isAnswered = "true false false", "false true false", "false false true"
	for verdict, arguments := range map[string]string{ // separated by commas
		runs: "-upgrade,--upgrade=T,-upgrade=0,-lockfile readonly,-lock-timeout 5s,-plugin-dir=x,--plugin-dir x,-var a=b,--var=a=," +
			"-var-file x.tfvars,-backend-config upgrade,-no-color,-compact-warnings,-get=f,-input=false,-lockfile=,-force-copy,-upgrade --,-var -x=1",
		isUnforeseen: "net,.,-,,-input false,---,-=x,-nosuch,--nosuch=1,-upgrade=,-upgrade=maybe,-plugin-dir=,-lockfile," +
			"--no-color,-no-color=true,-concise=true,-h=1,-out=x,-chdir=x,-create-default-workspace,-- -help",
		isAnswered: "-version,-v,--version,-help,--help,-h,-var -help,-install-autocomplete,-nosuch -h,-- -v",
	} {
		for argument := range strings.SplitSeq(arguments, ",") {
			words := strings.Split("init "+argument, " ")
			for _, engine := range []string{"terraform", "tofu"} {
				expect := func(words []string, env ...string) {
					t.Helper()
					in := programs.ReadLine(linux(nil, env...), append([]string{engine}, words...))
					got := fmt.Sprintf("%t %t %t", in.Init, in.Unforeseen != "", in.NoProviders)
					sourcetest.Equal(t, got, verdict, fmt.Sprintf("%s %q %q: runs init, is unforeseen, is answered", engine, words, env))
				}
				expect(words)
				if argument != "" && !strings.HasPrefix(argument, "-- ") {
					expect([]string{"init"}, "TF_CLI_ARGS="+argument)
					expect([]string{"init", "-no-color"}, "TF_CLI_ARGS_init="+argument)
				}
			}
		}
	}
	for _, words := range [][]string{{"-no-color", "init"}, {"-chdir=a", "-chdir=b", "init"}} {
		in := programs.ReadLine(linux(nil), append([]string{"terraform"}, words...))
		sourcetest.Expect(t, !in.Init && in.Unforeseen != "", "%q: %+v", words, in)
	}
	in := programs.ReadLine(linux(nil, "TF_CLI_ARGS='"), []string{"terraform", "init"})
	sourcetest.Expect(t, !in.Init && in.Unforeseen != "", "an unclosed quote: %+v", in)
}

func TestEnvironmentForEngine(t *testing.T) {
	m := linux(nil, "A=1", "TF_CLI_ARGS_init=-upgrade", "TF_PLUGIN_CACHE_DIR=/mine", "TF_PLUGIN_CACHE_DIR=/twice")
	line, environ := programs.ForEngine(m, strings.Fields("terraform init -plugin-dir x -var --plugin-dir=y -upgrade -plugin-dir"), `/it's`, "/engine", "/larder")
	sourcetest.Equal(t, strings.Join(line, " "), "terraform init -var -upgrade", "the command line")
	sourcetest.Equal(t, strings.Join(environ, "\n"), `A=1
LARDER_PLUGIN_CACHE_DIR=/larder
TF_CLI_ARGS_init=-plugin-dir='/it'\''s' -upgrade
TF_PLUGIN_CACHE_DIR=/engine`, "the environment")
	m.Environ = append(m.Environ, "TF_CLI_ARGS=-no-color -plugin-dir='a b'")
	_, m.Environ = programs.ForEngine(m, line, "/view", "/engine", "/larder")
	sourcetest.Expect(t, slices.Contains(m.Environ, "TF_CLI_ARGS='-no-color'"), "a variable with other mirrors: %q", m.Environ)
	c, diags := cliconfig.Load(t.Context(), m, terraform, cliconfig.Options{})
	sourcetest.Equal(t, len(diags), 0, "problems")
	sourcetest.Equal(t, c.PluginCacheDir+" "+c.DefaultCacheDir, " /larder", "larder's plugin cache below larder exec")
}

func TestRunEngine(t *testing.T) {
	m := linux(nil, "A=1", "TG_TF_PATH=/bin/tofu")
	line, environ := programs.RunEngine(m, strings.Fields("terragrunt --tf-path /bin/tofu plan --terragrunt-tfpath=/bin/tofu -- /bin/tofu"), "/shims/tofu")
	sourcetest.Equal(t, strings.Join(line, " "), "terragrunt --tf-path /shims/tofu plan --terragrunt-tfpath=/shims/tofu -- /bin/tofu")
	sourcetest.EqualSlices(t, environ, []string{"A=1", "TG_TF_PATH=/shims/tofu"}, "the environment")
	line, environ = programs.RunEngine(m, []string{"terragrunt", "plan", "--tf-path"}, "/shims/tofu")
	sourcetest.EqualSlices(t, line, []string{"terragrunt", "plan", "--tf-path"}, "a flag without a value")
	sourcetest.EqualSlices(t, environ, []string{"A=1", "TG_TF_PATH=/shims/tofu"}, "the environment")
}

func TestEnvironmentForProgram(t *testing.T) {
	m := linux(nil, "PATH=/bin", "LARDER_SHIM_FLAGS=--quiet")
	flags := []string{"--require-signed", "--config=/it's"}
	sourcetest.Equal(t, strings.Join(programs.ForProgram(m, "/shims", flags), "\n"), `LARDER_SHIM_FLAGS='--require-signed' '--config=/it'\''s'
PATH=/shims:/bin
TG_NO_AUTO_PROVIDER_CACHE_DIR=true`, "the environment")
	m.Environ = programs.ForProgram(m, "/shims", flags)
	read := sourcetest.Must(programs.ShimFlags(m))(t)
	sourcetest.EqualSlices(t, read, flags, "flags of shims")
	sourcetest.Equal(t, strings.Join(programs.ForProgram(m, "", nil), "\n"), `LARDER_SHIM_FLAGS='--require-signed' '--config=/it'\''s'
PATH=/shims:/bin
TG_NO_AUTO_PROVIDER_CACHE_DIR=true`, "nothing to add")
	for _, value := range []string{"--offline true", "-- sh", "sh", "-", "'--offline", "--offline; --quiet", "--cache=/R&D"} {
		flags, err := programs.ShimFlags(linux(nil, "LARDER_SHIM_FLAGS="+value))
		sourcetest.Expect(t, err != nil && len(flags) == 0, "%s: got %q, %v", value, flags, err)
	}
	m = cliconfig.Machine{GOOS: "windows", Environ: []string{"Path=C:\\bin"}}
	sourcetest.EqualSlices(t, programs.ForProgram(m, "C:\\shims", nil), []string{"PATH=C:\\shims;C:\\bin", "TG_NO_AUTO_PROVIDER_CACHE_DIR=true"}, "on Windows")
}

func TestNextProgram(t *testing.T) {
	files := map[string]string{"/shim/terraform": "", "/copy/terraform": "", "/bin/terraform": "", "/opt/terraform": ""}
	other := func(path string) bool { return path != "/shim/terraform" }
	m := linux(files, "PATH=.:relative:/none:/shim:/copy:/bin:/opt")
	next, environ, _ := programs.Next(m, "terraform", "", 7, other)
	sourcetest.Equal(t, next, "/copy/terraform", "the first program")

	// The copy is a shim too, in the same process.
	m.Environ = environ
	notCopy := func(path string) bool { return path != "/copy/terraform" }
	next, environ, _ = programs.Next(m, "terraform", "", 7, notCopy)
	sourcetest.Equal(t, next, "/bin/terraform", "the program after the copy")

	// A process that the engine runs may run the same engine.
	m.Environ = environ
	next, _, _ = programs.Next(m, "terraform", "", 8, other)
	sourcetest.Equal(t, next, "/copy/terraform", "the first program in another process")

	// Processes that run each other without end are stopped.
	for process := range 20 {
		if next, environ, _ = programs.Next(m, "terraform", "", 100+process, other); next == "" {
			break
		}
		m.Environ = environ
	}
	sourcetest.Equal(t, next, "", "the program after too many processes")

	next, _, _ = programs.Next(linux(nil, "PATH=/shim"), "tofu", "", 7, other)
	sourcetest.Equal(t, next, "", "a missing program")
}

// The script of a shim runs the program at its path, but not for the same process twice.
func TestNextProgramFixed(t *testing.T) {
	m := linux(nil)
	runs := func(path string) bool { return path == "/opt/terraform" }
	next, environ, _ := programs.Next(m, "terraform", "/opt/terraform", 7, runs)
	sourcetest.Equal(t, next, "/opt/terraform", "the program, without PATH")
	m.Environ = environ
	next, _, err := programs.Next(m, "terraform", "/opt/terraform", 7, runs)
	sourcetest.Expect(t, next == "" && strings.Contains(err.Error(), "keep running each other"), "again: %s, %v", next, err)
	next, _, _ = programs.Next(m, "terraform", "/opt/terraform", 8, runs)
	sourcetest.Equal(t, next, "/opt/terraform", "the program in another process")
	next, _, err = programs.Next(m, "terraform", "/gone/terraform", 7, runs)
	sourcetest.Expect(t, next == "" && strings.HasPrefix(err.Error(), "/gone/terraform is not a program"), "a missing program: %s, %v", next, err)
}

func TestShimScript(t *testing.T) {
	for _, tt := range []struct {
		os   string
		line []string
		want string
	}{
		{"linux", []string{"/opt/it's/larder", "exec", "--"}, "#!/bin/sh\n# Written by larder shim, which replaces and removes it.\nexec '/opt/it'\\''s/larder' 'exec' '--' \"$@\"\n"},
		{"windows", []string{`C:\100%\larder.exe`, "exec", "--"}, "@rem Written by larder shim, which replaces and removes it.\r\n@\"C:\\100%%\\larder.exe\" \"exec\" \"--\" %*\r\n"},
	} {
		m := cliconfig.Machine{GOOS: tt.os}
		text := programs.ShimScript(m, tt.line)
		sourcetest.Equal(t, text, tt.want, tt.os)
		sourcetest.Expect(t, programs.IsShimScript(text), "%s: is not recognized", tt.os)
	}
	for _, text := range []string{"", "#!/bin/sh\n", "#!/bin/sh\nexec larder exec\n", "larder"} {
		sourcetest.Expect(t, !programs.IsShimScript(text), "%q is recognized", text)
	}
}

// Engines split their arguments with the same version of the same library. In double quotes it drops
// every backslash, though a shell would keep some: terraform 1.11.4 and tofu 1.12.6 do so too.
func TestArgumentsAreSplitLikeEnginesDo(t *testing.T) {
	m := linux(nil, `TF_CLI_ARGS_init=-plugin-dir="a b"'c d' -plugin-dir e\ f -plugin-dir "g\"\\\n" -plugin-dir ''`)
	got := strings.Join(programs.ReadLine(m, []string{"terraform", "init"}).PluginDirs, "|")
	sourcetest.Equal(t, got, `a bc d|e f|g"\n|`)
}

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m}.Run()) }

const (
	terraform = sources.Terraform
	tofu      = sources.OpenTofu
)

// A disk has files by their absolute paths.
type disk struct{ fstest.MapFS }

func (d disk) ReadFile(_ context.Context, path string, _ int64) ([]byte, error) {
	return d.MapFS.ReadFile(path[1:])
}
func (d disk) ReadDir(path string) ([]fs.DirEntry, error) { return d.MapFS.ReadDir(path[1:]) }
func (d disk) Stat(path string) (fs.FileInfo, error)      { return d.MapFS.Stat(path[1:]) }
func (d disk) Lstat(path string) (fs.FileInfo, error)     { return d.MapFS.Lstat(path[1:]) }

func linux(files map[string]string, environ ...string) cliconfig.Machine {
	d := disk{fstest.MapFS{}}
	for path, content := range files {
		d.MapFS[path[1:]] = &fstest.MapFile{Data: []byte(content)}
	}
	return cliconfig.Machine{GOOS: "linux", Environ: environ, Home: "/home/me", CacheHome: "/home/me/.cache", WorkDir: "/start", Files: d}
}

// A quoted word is read again as the same word.
func FuzzQuoteShell(f *testing.F) {
	f.Add(`-a "b c" 'd' e\ f "" $(g) ; & (`)
	f.Fuzz(func(t *testing.T, word string) {
		word = strings.ToValidUTF8(word, "�") // which the library makes of other bytes
		words, err := shellwords.Parse("x " + programs.QuoteShell(word) + " y")
		sourcetest.Require(t, err == nil && slices.Equal(words, []string{"x", word, "y"}), "got %q, %v", words, err)
	})
}
