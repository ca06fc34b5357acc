//go:build unix

package main

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestTorture(t *testing.T) {
	torture(t, options{rounds: 4, processes: 8, seed: 1}, func(r report) { t.Log(r) })
}

func TestTortureBesideTerraform(t *testing.T) {
	sourcetest.Judge(t, sources.Terraform)
	torture(t, options{rounds: 2, processes: 6, seed: 1, terraform: true}, func(r report) { t.Log(r) })
}
