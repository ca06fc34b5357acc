package fetch

import (
	"fmt"
	"testing"
)

// TestGrowth checks that connections are added while that increases the speed,
// and not once the network is at its limit.
func TestGrowth(t *testing.T) {
	for _, test := range []struct {
		name  string
		rates []float64 // with one connection, and after each increase
		want  string    // connections added
	}{
		{"each adds the same speed", []float64{10, 60, 160, 160}, "[5 10 0 0]"},
		{"one reaches the full speed", []float64{10, 10, 10}, "[5 0 0]"},
		{"six reach the full speed", []float64{10, 50, 60}, "[5 10 0]"},
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
