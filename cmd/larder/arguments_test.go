package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestFlagsMayStandAnywhere(t *testing.T) {
	app := newApp(ui.New(nil, nil))
	for _, tt := range []struct{ typed, means string }{
		{"larder", "larder"},
		{"larder --chdir prefetch prefetch aws", "larder --chdir prefetch prefetch aws"},
		{"larder prefetch aws --from live -R other", "larder prefetch --from live -R aws other"},
		{"larder prefetch aws --from=live other", "larder prefetch --from=live aws other"},
		{"larder prefetch aws -platform linux_amd64", "larder prefetch -platform linux_amd64 aws"},
		{"larder prefetch aws --json --from", "larder prefetch --json --from aws"},
		{"larder prefetch aws --unknown google", "larder prefetch --unknown aws google"},
		{"larder prefetch aws -- --from -R", "larder prefetch -- aws --from -R"},
		{"larder prefetch aws cache -", "larder prefetch aws cache -"},
		{"larder cache --quiet prune --older-than 3d x --all", "larder cache --quiet prune --older-than 3d --all x"},
		{"larder help cache prune", "larder help cache prune"},
		{"larder wrong --json", "larder --json wrong"},
		{"larder install -uR live", "larder install -u -R live"},
		{"larder install -Ru --platform=-uR", "larder install -R -u --platform=-uR"},
		{"larder install -uX", "larder install -uX"},
		{"larder cache prune -y", "larder cache prune -y"},
	} {
		sourcetest.Equal(t, strings.Join(readCommandLine(app, strings.Fields(tt.typed)).args, " "), tt.means, tt.typed, "means")
	}
}

// Splitting a command line neither loses nor adds arguments.
func FuzzCommandLine(f *testing.F) {
	for _, seed := range []string{"prefetch aws --from x", "cache prune -- --all", "- -- -", "--chdir"} {
		f.Add(seed)
	}
	app := newApp(ui.New(nil, nil))
	f.Fuzz(func(t *testing.T, typed string) {
		args := append([]string{"larder"}, strings.Split(typed, " ")...)
		got := readCommandLine(app, args).args
		again := readCommandLine(app, got).args
		if len(got) == len(args) && !slices.Equal(slices.Sorted(slices.Values(args)), slices.Sorted(slices.Values(got))) || !slices.Equal(got, again) {
			t.Errorf("%q became %q, then %q", args, got, again)
		}
	})
}

// Mistyped commands and flags have a hint with the right one.
func TestSuggestions(t *testing.T) {
	for typed, want := range map[string]string{
		"instal":                       `unknown command "instal"|did you mean "install"?`,
		"instal --help":                `unknown command "instal"|did you mean "install"?`,
		"cache prnue --yes":            `unknown command "cache prnue"|did you mean "cache prune"?`,
		"mirror prune2 --help x":       `unknown command "mirror prune2"|did you mean "mirror prune"?`,
		"help instal":                  `unknown command "instal"|did you mean "install"?`,
		"help mirror snyc":             `unknown command "mirror snyc"|did you mean "mirror sync"?`,
		"init":                         `unknown command "init"|did you mean "install"?`,
		"verify":                       `unknown command "verify"|did you mean "mirror verify", "bundle verify" or "cache verify"?`,
		"mirror stats":                 `unknown command "mirror stats"|did you mean "cache stats"?`,
		"mirror help":                  `unknown command "mirror help"|did you mean "help mirror"?`,
		"mirror teleport":              `unknown command "mirror teleport"|larder help mirror lists its commands`,
		"teleport":                     `unknown command "teleport"|larder help lists the commands`,
		"install --upgrdae":            `unknown flag "--upgrdae" for larder install|did you mean "--upgrade"?`,
		"install --jsn":                `unknown flag "--jsn" for larder install|did you mean "--json"?`,
		"install --newest":             `unknown flag "--newest" for larder install|larder prefetch, larder mirror sync, larder bundle create have it`,
		"install --teleport":           `unknown flag "--teleport" for larder install|larder help install lists its flags`,
		"--lockfile=readonly install":  `unknown flag "--lockfile"|write it after the command, as in larder install --lockfile`,
		"--teleport install":           `unknown flag "--teleport"|larder help flags lists the flags of every command`,
		"install --jobs many":          `--jobs: "many" is not a whole number|larder help flags describes it`,
		"install --lock-timeout 5":     `--lock-timeout: "5" is not a time, such as 30s or 5m|larder help flags describes it`,
		"install --jobs":               `--jobs needs a value|write a value that begins with - behind a =: --jobs=-VALUE`,
		"install --platform amd64":     `platform "amd64" is unknown|write it as OS_ARCH, such as linux_amd64 or darwin_arm64`,
		"lock --platform macos_arm64":  `platform "macos_arm64" is unknown|did you mean "darwin_arm64"?`,
		"lock --platform linux_amd46":  `platform "linux_amd46" is unknown|did you mean "linux_amd64"?`,
		"lock --platform linux-x86_64": `platform "linux-x86_64" is unknown|did you mean "linux_amd64"?`,
		"lock --platform beos_m68k":    `platform "beos_m68k" is unknown|write it as OS_ARCH, such as linux_amd64 or darwin_arm64`,
		"lock --engine tofuu":          `--engine is auto, terraform or tofu, not "tofuu"|did you mean "tofu"?`,
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"larder"}, strings.Fields(typed)...), &stdout, &stderr)
		text, hint, _ := strings.Cut(want, "|")
		sourcetest.Equal(t, stderr.String(), "larder: error: "+text+"\nhint: "+hint+"\n", typed)
		sourcetest.Equal(t, status, exitUsage, typed)
		sourcetest.Equal(t, stdout.String(), "", typed)
	}
}
