package modules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// maxFile limits the size in bytes of configuration files. Hand-written files have
// some kilobytes, generated files some megabytes.
const maxFile = 16 << 20

var (
	configExtensions = []string{".tf", ".tf.json", ".tofu", ".tofu.json"}
	testExtensions   = []string{".tftest.hcl", ".tftest.json", ".tofutest.hcl", ".tofutest.json"}

	// stackExtensions are those of Terraform's stacks, which init ignores.
	stackExtensions = []string{
		".tfcomponent.hcl", ".tfcomponent.json", ".tfdeploy.hcl", ".tfdeploy.json", ".tfstack.hcl", ".tfstack.json",
	}
)

// twins maps the extensions that only OpenTofu reads to the extensions that they
// hide: x.tofu hides x.tf in the same directory.
var twins = map[string]string{
	".tofu": ".tf", ".tofu.json": ".tf.json",
	".tofutest.hcl": ".tftest.hcl", ".tofutest.json": ".tftest.json",
}

// extension returns the element of extensions that name ends with, or "".
func extension(name string, extensions []string) string {
	for _, ext := range extensions {
		if strings.HasSuffix(name, ext) {
			return ext
		}
	}
	return ""
}

// isTest reports whether a file of this name can be a test.
func isTest(name string) bool { return extension(name, testExtensions) != "" }

// IsConfiguration reports whether a file of this name can be configuration.
func IsConfiguration(name string) bool { return extension(name, configExtensions) != "" }

// excludesUnits reports whether a lock file beside a file of this name isn't one of a unit of Terragrunt, whose
// configuration is elsewhere: the file is configuration, or part of a stack.
func excludesUnits(name string) bool {
	return IsConfiguration(name) || extension(name, stackExtensions) != ""
}

// configNames returns the files in dir that any engine reads as configuration, tests or
// stacks, sorted bytewise.
func configNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	return namesOf(entries), err
}

func namesOf(entries []os.DirEntry) []string {
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		known := excludesUnits(name) || isTest(name)
		if known && !entry.IsDir() && !ignored(name) {
			names = append(names, name)
		}
	}
	return names
}

// ignored reports whether name is that of a temporary file of an editor.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// engineNames returns the names that have one of extensions and that e reads.
func engineNames(names, extensions []string, e sources.Engine) []string {
	hidden := map[string]bool{}
	for _, name := range names {
		if hides := hiddenBy(name, extensions); hides != "" {
			// Terraform ignores the twin, OpenTofu reads only the twin.
			hidden[name] = e != sources.OpenTofu
			hidden[hides] = e == sources.OpenTofu
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return extension(name, extensions) == "" || hidden[name]
	})
}

// hiddenBy returns the name of the file that OpenTofu ignores because of a file with one of
// extensions. It is "" if Terraform reads the file too.
func hiddenBy(name string, extensions []string) string {
	ext := extension(name, extensions)
	if twins[ext] == "" {
		return ""
	}
	return strings.TrimSuffix(name, ext) + twins[ext]
}

// onlyTofu reports whether Terraform ignores a configuration or test file of this name.
func onlyTofu(name string) bool {
	return hiddenBy(name, configExtensions) != "" || hiddenBy(name, testExtensions) != ""
}

// override reports whether a file amends the contents of other files.
func override(name string) bool {
	base := strings.TrimSuffix(name, extension(name, configExtensions))
	return base == "override" || strings.HasSuffix(base, "_override")
}

// readFile reads the regular file at path. Its errors do not name the path.
func readFile(path string) ([]byte, error) { return hclfile.Read(path, maxFile) }

// pathIn returns the path of a file in dir. An absolute name stays as it is.
func pathIn(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// realPath returns path with its symlinks resolved as far as possible.
func realPath(path string) string {
	if real, err := disk.Resolve(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}
