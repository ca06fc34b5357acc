//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

func TestTorture(t *testing.T) {
	t.Parallel()
	rounds := len(sourcetest.Sample(t, 4, 1))
	torture(t, options{rounds: rounds, processes: 8, seed: sourcetest.Seed(), size: 1 << 20}, func(r report) { t.Log(r) })
}

// TestTortureBesideEngines runs engines and Larder at once with a shared cache,
// and kills some of them in every other round. All rounds are about a thousand runs.
func TestTortureBesideEngines(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, engine sources.Engine) {
		t.Parallel() // a round waits most of the time
		opts := options{rounds: len(sourcetest.Sample(t, 20, 1)), processes: 6, seed: sourcetest.Seed(), engine: engine}
		opts.providers, opts.size = providers[:3], 1<<20
		if sourcetest.Thorough() {
			opts.processes, opts.providers, opts.size = 8, nil, 0
		}
		torture(t, opts, func(r report) { t.Log(r) })
	})
}
