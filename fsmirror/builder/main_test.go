package builder_test

import (
	"os"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }
