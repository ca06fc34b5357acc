package sources_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A hint of joined errors is a hint of each.
func TestErrors(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	inner := sources.WithHint(errors.Join(one, sources.WithHint(two, "second")), "both")
	var got []string
	for _, err := range sources.Errors(errors.Join(nil, inner, one)) {
		got = append(got, fmt.Sprint(err, sources.Hints(err)))
	}
	sourcetest.EqualSlices(t, got, []string{"one [both]", "two [both second]", "one []"})
	sourcetest.Equal(t, len(sources.Errors(nil)), 0)
}
