package work

import (
	"sync"

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
