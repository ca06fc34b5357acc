package job

import (
	"sync"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// incomplete collects the lock files that were written without hashes for other platforms.
type incomplete struct {
	mu        sync.Mutex
	files     int
	providers map[sources.Provider]bool
	declared  bool // a policy declares the platforms
}

// add records what was written for a root module.
func (i *incomplete) add(result *installer.Result, rules *policy.Policy) {
	if result == nil || !result.Lock.Written || len(result.Incomplete) == 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.files++
	i.declared = i.declared || rules.Has(policy.Platforms)
	if i.providers == nil {
		i.providers = map[sources.Provider]bool{}
	}
	for _, p := range result.Incomplete {
		i.providers[p] = true
	}
}
