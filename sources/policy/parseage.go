package policy

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/larder-cli/larder/sources"
)

// age is a number with a unit.
var age = regexp.MustCompile(`^([0-9]{1,4})([hdw])$`)

// ParseAge parses a number of hours, days or weeks, such as 7d.
func ParseAge(text string) (time.Duration, error) {
	m := age.FindStringSubmatch(text)
	if m == nil {
		err := fmt.Errorf("min_age is a number of hours, days or weeks, not %.40q", text)
		return 0, sources.WithHint(err, `write it as in "12h", "7d" or "2w"`)
	}
	n, _ := strconv.Atoi(m[1]) // up to four digits
	unit := map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[m[2]]
	if n == 0 {
		return 0, sources.WithHint(fmt.Errorf("min_age must be more than %s", text), "leave min_age out to allow every age")
	}
	return time.Duration(n) * unit, nil
}
