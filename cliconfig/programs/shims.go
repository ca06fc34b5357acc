package programs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
)

// ScriptFile returns the file name of a script that runs as a program of a name.
func ScriptFile(m cliconfig.Machine, name string) string { return name + m.ForOS(".cmd", "") }

// The first lines of scripts that larder shim writes, by which it recognizes them.
const (
	shimNote  = "Written by larder shim, which replaces and removes it."
	shimHead  = "#!/bin/sh\n# " + shimNote + "\n"
	batchHead = "@rem " + shimNote + "\r\n"
)

// ShimScript returns a script that runs a command line with the script's own arguments added. In a
// batch file, two percent signs stand for one, even in quotes.
func ShimScript(m cliconfig.Machine, line []string) string {
	if m.GOOS == "windows" {
		return batchHead + `@"` + strings.ReplaceAll(strings.Join(line, `" "`), "%", "%%") + "\" %*\r\n"
	}
	return shimHead + "exec " + quoteAll(line) + " \"$@\"\n"
}

// IsShimScript reports whether text is a result of [ShimScript].
func IsShimScript(text string) bool {
	return strings.HasPrefix(text, shimHead) || strings.HasPrefix(text, batchHead)
}

// maxShims is how often shims may run each other, with engines in between: an engine may
// run a script that runs an engine.
const maxShims = 20

// Next returns the program that the shim of a name runs: the one at the path fixed, or if that
// is empty, the next one of that name on PATH that runs, and that isn't the shim itself. It fails if
// there is none, or if shims run each other in a loop. The environment is that of the program. Its
// LARDER_SHIM lists the shims that have run before, for the process that a shim has become, or, with a minus sign, for
// the one that it runs:
//
//	[-]PROCESS DEPTH PATH...
func Next(
	m cliconfig.Machine, name, fixed string, process int, runs func(path string) bool,
) (path string, environ []string, err error) {
	var depth int
	var seen []string
	if words := strings.Split(m.Getenv(shimsRun), "\n"); len(words) > 1 {
		depth, _ = strconv.Atoi(words[1])
		// Otherwise they were seen on behalf of a process that has run this one.
		if words[0] == strconv.Itoa(process) || words[0] == strconv.Itoa(-os.Getppid()) {
			seen = words[2:]
		}
	}
	programs := []string{fixed}
	notFound := sources.WithHint(fmt.Errorf("%s is not a program that larder's shim can run", fixed),
		"install it again, or name another engine: larder shim --engine-path FILE DIR")
	if fixed == "" {
		programs = m.Programs(name)
		notFound = sources.WithHint(fmt.Errorf("PATH has no %s besides larder's link", name),
			"put the directory of %s on PATH, after that of the link, "+
				"or name the engine: larder shim --engine-path FILE DIR", name)
	}
	if depth >= maxShims || fixed != "" && slices.Contains(seen, fixed) {
		err := fmt.Errorf("%s: programs with this name keep running each other", name)
		return "", nil, sources.WithHint(err, "let the program that larder's shim runs start %s by its path", name)
	}
	for _, path := range programs {
		next := !slices.Contains(seen, path) && runs(path)
		seen = append(seen, path)
		if next {
			value := append([]string{strconv.Itoa(process), strconv.Itoa(depth + 1)}, seen...)
			return path, m.With(map[string]string{shimsRun: strings.Join(value, "\n")}), nil
		}
	}
	return "", nil, notFound
}

// shimsRun is the variable with the shims that have run before.
const shimsRun = "LARDER_SHIM"

// shimFlags is the variable with flags of larder exec for shims.
const shimFlags = "LARDER_SHIM_FLAGS"

// ShimFlags returns the flags of larder exec for shims. Each is one word, with an = before its value:
// otherwise a word could become the command that runs instead of the engine.
func ShimFlags(m cliconfig.Machine) (flags []string, err error) {
	parser := shellwords.NewParser()
	words, err := parser.Parse(m.Getenv(shimFlags))
	if err != nil || parser.Position >= 0 { // the position of an operator, behind which nothing is read
		err = fmt.Errorf("%s has an unclosed quote, or an operator such as ; outside of quotes", shimFlags)
	}
	for _, word := range words {
		if strings.HasPrefix(word, "-") && word != "-" && word != "--" {
			flags = append(flags, word)
		} else if err == nil {
			err = fmt.Errorf("%s: %q is not a flag", shimFlags, word)
		}
	}
	if err != nil {
		return nil, sources.WithHint(err, "write flags of larder exec with their values in one word: --cache=DIR")
	}
	return flags, nil
}
