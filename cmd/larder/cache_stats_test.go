package main

import (
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The largest has the longest bar, and without room there are none.
func TestBars(t *testing.T) {
	totals := []providerTotal{{"a.test/b/c", 2, 1, 1000}, {"a.test/b/d", 1, 1, 250}}
	want := []string{
		"a.test/b/c  1.0 kB  1 version  2 packages  ████████",
		"a.test/b/d  250 B   1 version  1 package   ██",
	}
	sourcetest.EqualSlices(t, ui.Columns(totalRows(totals, 68)), want)
	got := ui.Columns(totalRows(totals, 0))
	sourcetest.Equal(t, got[1], "a.test/b/d  250 B   1 version  1 package", got)
}
