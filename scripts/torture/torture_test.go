//go:build unix

package main

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestTorture(t *testing.T) {
	torture(t, options{rounds: 4, processes: 8, seed: 1}, func(r report) { t.Log(r) })
}

// TestTortureBesideEngines runs engines and Larder at once with a shared cache,
// and kills some of them. Under CI it takes two minutes, for about a thousand
// runs.
func TestTortureBesideEngines(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, engine sources.Engine) {
		opts := options{rounds: 2, processes: 6, seed: 1, engine: engine, providers: providers[:3]}
		if os.Getenv("CI") != "" {
			opts.rounds, opts.processes, opts.providers, opts.lasting = math.MaxInt, 8, nil, time.Minute
		}
		torture(t, opts, func(r report) { t.Log(r) })
	})
}
