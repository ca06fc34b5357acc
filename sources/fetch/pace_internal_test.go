package fetch

import (
	"fmt"
	"testing"
)

// Connections are added while that brings more, and not to a line that is full.
func TestGrowth(t *testing.T) {
	for _, test := range []struct {
		name  string
		rates []float64 // with one connection, and each time that more were tried
		want  string    // connections added
	}{
		{"each brings as much", []float64{10, 60, 160, 160}, "[5 10 0 0]"},
		{"the line is full with one", []float64{10, 10, 10}, "[5 0 0]"},
		{"the line is full with six", []float64{10, 50, 60}, "[5 10 0]"},
	} {
		g, added := growth{}, []int{}
		for _, rate := range test.rates {
			added = append(added, g.more(rate))
		}
		if got := fmt.Sprint(added); got != test.want {
			t.Errorf("%s: added %s, want %s", test.name, got, test.want)
		}
	}
}
