package cliconfig_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Every variable and setting that the package reads is in the documentation.
func TestVariablesAndSettingsAreDocumented(t *testing.T) {
	document := sourcetest.ReadFile(t, filepath.Join("..", "docs", "configuration.md"))
	variable := regexp.MustCompile(`"((?:AWS|TF|TERRAFORM|OPENTOFU|LARDER|XDG|SSL)_[A-Z0-9a-z_]+|NETRC|NO_COLOR|CLICOLOR_FORCE|HOME|TERM|[A-Z]+_PROXY)"`)
	setting := regexp.MustCompile(`"([a-z_]+)": +(?:nil|l\.|value|secret|func)`)
	named := regexp.MustCompile(`(?:Block|Name|Setting|Overrides) += "([a-z_]+)"`)
	files, err := filepath.Glob("*.go")
	check(t, err)
	var names []string
	for _, file := range files {
		source := sourcetest.ReadFile(t, file)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, pattern := range []*regexp.Regexp{variable, setting, named} {
			for _, m := range pattern.FindAllSubmatch(source, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	sourcetest.Require(t, len(names) >= 30, "found only %q", names)
	inputs := string(sourcetest.ReadFile(t, "variables.go"))
	for _, name := range names {
		if variable.MatchString(`"` + name + `"`) {
			listed := name == "TF_TOKEN_" || name == "TF_CLI_ARGS_" || name == "TF_VAR_" || strings.Contains(inputs, `"`+name+`"`)
			sourcetest.Expect(t, listed, "larder help config does not list %s", name)
		}
		sourcetest.Expect(t, strings.Contains(string(document), name), "docs/configuration.md does not say what %s is", name)
	}
}
