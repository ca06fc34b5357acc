package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// incomplete collects the lock files that were written without hashes for other platforms.
type incomplete struct {
	mu        sync.Mutex
	files     int
	providers map[sources.Provider]bool
}

// add records what was written for a root module.
func (i *incomplete) add(result *installer.Result) {
	if result == nil || !result.Lock.Written || len(result.Incomplete) == 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.files++
	if i.providers == nil {
		i.providers = map[sources.Provider]bool{}
	}
	for _, p := range result.Incomplete {
		i.providers[p] = true
	}
}

// warnIncomplete prints one warning for all of them, because they have the same cause: no
// source has the signed checksums of a version.
func (in *installation) warnIncomplete() {
	i := &in.incomplete
	if i.files == 0 {
		return
	}
	platforms := in.flags.platforms
	if len(platforms) == 0 {
		platforms = []sources.Platform{sources.CurrentPlatform()}
	}
	names := sources.Texts(slices.SortedFunc(maps.Keys(i.providers), sources.Provider.Compare))
	files, command := "the lock file has", "larder lock"
	if in.flags.recursive {
		files, command = ui.Count(i.files, "lock file")+" have", "larder lock --recursive"
		if i.files == 1 {
			files = "1 lock file has"
		}
	}
	example := slices.Clone(sources.Texts(platforms))
	for _, other := range []string{"linux_amd64", "darwin_arm64"} {
		if !slices.Contains(example, other) {
			example = append(example, other)
		}
	}
	in.out.WarnHint(
		fmt.Sprintf("to add hashes for the platforms that you use, run %s --platform %s", command, strings.Join(example, " --platform ")),
		"%s hashes for %s only, so init fails on other platforms: %s", files, ui.List("and", sources.Texts(platforms)), strings.Join(names, ", "))
}
