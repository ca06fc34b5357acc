package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/sources"
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
	for _, f := range l.Command.AllFlags() {
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
		told := strings.HasPrefix(stderr.String(), "larder: error: "+want)
		sourcetest.Expect(t, told, "%q: larder prints\n%s", args, stderr.String())
	}
	for _, c := range commandTree().All() {
		least := max(c.Least, map[bool]int{c.Passes: 1}[true])
		words := append(strings.Fields(c.Path), slices.Repeat([]string{"x"}, least)...)
		if len(c.Commands) > 0 || slices.Contains([]string{"help", "completion", "version"}, c.Path) {
			continue
		}
		for _, f := range c.AllFlags() {
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
	lines := slices.Collect(strings.Lines(string(sourcetest.ReadFile(t, "testdata/mistyped.txt"))))
	for entry := range slices.Chunk(lines, 3) { // what is typed, the error and the hint
		typed := strings.TrimSpace(entry[0])
		var stdout, stderr bytes.Buffer
		status := runLine(t.Context(), strings.Fields(typed), &stdout, &stderr)
		want := "larder: " + strings.TrimSpace(entry[1]) + "\n" + strings.TrimSpace(entry[2]) + "\n"
		sourcetest.Equal(t, stderr.String(), want, typed)
		sourcetest.Equal(t, status, exitUsage, typed)
		sourcetest.Equal(t, stdout.String(), "", typed)
	}
}

func TestParseSize(t *testing.T) {
	parses(t, line.ParseSize, map[string]int64{
		"20G": 20e9, "1.5gb": 1.5e9, "512MiB": 512 << 20, "2Ti": 2 << 40, "7": 0, "7B": 7, "1k": 1000,
		"": 0, "0": 0, "-1G": 0, "G": 0, "1X": 0, "1GG": 0, "NaN": 0, "Inf": 0, "1e30": 0, "0.1": 0,
	})
}

func TestParseAge(t *testing.T) {
	parses(t, sources.ParseAge, map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "12h": 12 * time.Hour,
		"1m": 0, "90m": 0, "1h30m": 0, "": 0, "d": 0, "0d": 0, "-1d": 0, "30": 0, "1.5d": 0, "99999999d": 0, "-2h": 0,
	})
}

// parses checks the results for texts. For what is no number above zero there is an error.
func parses[N ~int64](t *testing.T, parse func(string) (N, error), wants map[string]N) {
	t.Helper()
	for text, want := range wants {
		got, err := parse(text)
		sourcetest.Expect(t, got == want && (err == nil) == (want > 0), "%q is %v, %v; want %v", text, got, err, want)
	}
}
