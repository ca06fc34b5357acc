package sources

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// age is a number with a unit.
var age = Regexp(`^([0-9]{1,5})([hdw])$`)

// ParseAge parses a number of hours, days or weeks, such as 30d. Flags and files have the same units. An m could be
// minutes or months, so it is none.
func ParseAge(text string) (time.Duration, error) {
	if m := age().FindStringSubmatch(text); m != nil {
		unit := map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[m[2]]
		if n, _ := strconv.Atoi(m[1]); n > 0 { // up to five digits
			return time.Duration(n) * unit, nil
		}
	}
	hint := "write a number greater than 0 and a unit, as in 12h, 30d or 2w"
	if strings.HasSuffix(text, "m") {
		hint = "m could be minutes or months: write hours, days or weeks, as in 12h, 30d or 2w"
	}
	return 0, WithHint(errors.New("not an age"), "%s", hint)
}
