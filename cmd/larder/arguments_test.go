package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestFlagsMayStandAnywhere(t *testing.T) {
	for _, tt := range []struct{ typed, flags, words string }{
		{"larder", "", ""},
		{"larder --chdir prefetch prefetch aws", "--chdir=prefetch", "aws"},
		{"larder prefetch aws --from live -R other", "--from=live --recursive=true", "aws other"},
		{"larder prefetch aws --from=live other", "--from=live", "aws other"},
		{"larder prefetch aws -platform linux_amd64", "--platform=linux_amd64", "aws"},
		{"larder prefetch aws -- --from -R", "", "aws --from -R"},
		{"larder prefetch aws cache -", "", "aws cache -"},
		{"larder cache --quiet prune --older-than 3d x --all", "--quiet=true --older-than=3d --all=true", "x"},
		{"larder help cache prune", "", "cache prune"},
		{"larder install -uR live", "--upgrade=true --recursive=true", "live"},
		{"larder install -Ru --platform=-uR", "--recursive=true --upgrade=true --platform=-uR", ""},
		{"larder -q install -vr", "--quiet=true --verbose=true --recursive=true", ""},
		{"larder cache prune -y", "--yes=true", ""},
		{"larder exec -u terraform init -upgrade -- x", "--upgrade=true", "terraform init -upgrade -- x"},
		{"larder exec -- -x", "", "-x"},
	} {
		l, err := line.Read(commandTree(), strings.Fields(tt.typed))
		sourcetest.Check(t, err)
		want := slices.Sorted(slices.Values(strings.Fields(tt.flags)))
		sourcetest.EqualSlices(t, slices.Sorted(slices.Values(typedFlags(l))), want, tt.typed)
		sourcetest.Equal(t, strings.Join(l.Words, " "), tt.words, tt.typed)
	}
}

// typedFlags returns the flags of a line as single words, each with its value.
func typedFlags(l *line.Line) (words []string) {
	for _, f := range l.Command.Flags {
		for _, value := range l.Texts(f.Name) {
			words = append(words, "--"+f.Name+"="+value)
		}
	}
	return words
}

// No flag has an empty value, which is probably that of an unset variable: a limit must not become none.
func TestEmptyValuesAreRefused(t *testing.T) {
	refused := func(want string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		status := runLine(t.Context(), append([]string{"larder"}, args...), &stdout, &stderr)
		sourcetest.Equal(t, status, exitUsage, strings.Join(args, " "))
		sourcetest.Expect(t, strings.HasPrefix(stderr.String(), "larder: error: "+want), "%q: larder prints\n%s", args, stderr.String())
	}
	for _, c := range commandTree().All() {
		words := append(strings.Fields(c.Path), slices.Repeat([]string{"x"}, max(c.Least, map[bool]int{c.Passes: 1}[true]))...)
		if len(c.Commands) > 0 || slices.Contains([]string{"help", "completion", "version"}, c.Path) {
			continue
		}
		for _, f := range c.Flags {
			if f.Value != "" {
				refused("--"+f.Name, slices.Insert(slices.Clone(words), len(strings.Fields(c.Path)), "--"+f.Name+"=")...)
			}
		}
		if words[len(words)-1] = ""; c.Least > 0 && !c.Passes {
			refused("an argument is empty", words...)
		}
	}
}

// Reading a command line loses no arguments, and what it read is read the same again.
func FuzzCommandLine(f *testing.F) {
	for _, seed := range []string{"prefetch aws --from x", "cache prune -- --all", "- -- -", "--chdir"} {
		f.Add(seed)
	}
	root := commandTree()
	f.Fuzz(func(t *testing.T, typed string) {
		args := append([]string{"larder"}, strings.Split(typed, " ")...)
		l, err := line.Read(root, args)
		for _, word := range l.Words {
			sourcetest.Expect(t, slices.Contains(args, word), "%q is not in %q", word, args)
		}
		if err != nil {
			return
		}
		again := slices.Concat([]string{"larder"}, strings.Fields(l.Command.Path), typedFlags(l), []string{"--"}, l.Words)
		m, err := line.Read(root, again)
		if err != nil || m.Command != l.Command || !slices.Equal(typedFlags(m), typedFlags(l)) ||
			!slices.Equal(m.Words, l.Words) {
			t.Errorf("%q became %q: %v", args, again, err)
		}
	})
}

// Mistyped commands and flags have a hint with the right one.
func TestSuggestions(t *testing.T) {
	for typed, want := range map[string]string{
		"instal":                      `unknown command "instal"|did you mean "install"?`,
		"cache prnue --yes":           `unknown command "cache prnue"|did you mean "cache prune"?`,
		"help instal":                 `unknown command "instal"|did you mean "install"?`,
		"export":                      `unknown command "export"|did you mean "cache export"?`,
		"providers lock":              `unknown command "providers lock"|did you mean "lock"?`,
		"list":                        `unknown command "list"|did you mean "cache list" or "versions"?`,
		"wyh":                         `unknown command "wyh"|did you mean "why"?`,
		"prune":                       `unknown command "prune"|did you mean "mirror prune" or "cache prune"?`,
		"mirror stats":                `unknown command "mirror stats"|did you mean "cache stats"?`,
		"mirror help":                 `unknown command "mirror help"|did you mean "help mirror"?`,
		"mirror teleport":             `unknown command "mirror teleport"|larder help mirror lists its commands`,
		"teleport":                    `unknown command "teleport"|larder help lists the commands`,
		"install --upgrdae":           `unknown flag "--upgrdae" for larder install|did you mean "--upgrade"?`,
		"install --newest":            `unknown flag "--newest" for larder install|it is a flag of larder prefetch, larder mirror sync and larder bundle create`,
		"install -uRz":                `unknown flag "-uRz" for larder install|larder help install lists its flags`,
		"install --check":             `unknown flag "--check" for larder install|it is a flag of larder lock and larder outdated`,
		"install --teleport":          `unknown flag "--teleport" for larder install|larder help install lists its flags`,
		"--lockfile=readonly install": `unknown flag "--lockfile"|write it after the command, as in larder install --lockfile`,
		"-xyz":                        `unknown flag "-xyz"|larder help flags lists the flags of every command`,
		"install --jobs many":         `--jobs: "many" is not a whole number|larder help flags describes it`,
		"install --lock-timeout 5":    `--lock-timeout: "5" is not a time, such as 30s or 5m|larder help flags describes it`,
		"install --platform":          `--platform needs a value|write it after the flag, as in --platform linux_amd64`,
		"install --platform --quiet":  `--platform needs a value|write it after the flag, as in --platform linux_amd64`,
		"install --exclude -old":      `--exclude needs a value|write it after the flag, as in --exclude GLOB`,
		"install --platform amd64":    `platform "amd64" is unknown|write it as OS_ARCH, such as linux_amd64 or darwin_arm64`,
		"lock --platform linux_amd46": `platform "linux_amd46" is unknown|did you mean "linux_amd64"?`,
		"lock --platform beos_m68k":   `platform "beos_m68k" is unknown|write it as OS_ARCH, such as linux_amd64 or darwin_arm64`,
		"lock --engine tofuu":         `--engine is auto, terraform or tofu, not "tofuu"|did you mean "tofu"?`,
	} {
		var stdout, stderr bytes.Buffer
		status := runLine(t.Context(), append([]string{"larder"}, strings.Fields(typed)...), &stdout, &stderr)
		text, hint, _ := strings.Cut(want, "|")
		sourcetest.Equal(t, stderr.String(), "larder: error: "+text+"\nhint: "+hint+"\n", typed)
		sourcetest.Equal(t, status, exitUsage, typed)
		sourcetest.Equal(t, stdout.String(), "", typed)
	}
}
