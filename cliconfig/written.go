package cliconfig

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
)

// replaceable matches what a shell replaces in a path: the home directory of a user, and variables.
var replaceable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^~(?:[\w.-]+)?(?:$|[/\\])|\$(?:\{\w+\}|env:\w+|[A-Za-z_]\w*)|%[A-Za-z_][\w()]*%`)
})

// CheckPath fails for a path that begins with ~ or contains a variable, if its reader expands neither. Engines take
// such a path literally, and create a directory named ~. CheckPath accepts URLs, and the name of an existing file
// unless that name is ~.
func (m Machine) CheckPath(path string) error {
	if strings.Contains(path, "://") {
		return nil
	}
	for _, at := range replaceable().FindAllStringIndex(path, -1) {
		found := strings.TrimRight(path[at[0]:at[1]], `/\`)
		end := at[0] + len(found)
		tail, _, _ := strings.Cut(strings.ReplaceAll(path[end:], m.ForOS(`\`, "/"), "/"), "/")
		if found == "~" || !m.Exists(m.Abs(m.WorkDir, path[:end+len(tail)])) {
			err := fmt.Errorf("only a shell expands %s in %q", found, path)
			return sources.WithHint(err, "write the path in full")
		}
	}
	return nil
}

// checkPath is CheckPath for the path in a setting or a variable.
func (m Machine) checkPath(setting, path string) error {
	if err := m.CheckPath(path); err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	return nil
}
