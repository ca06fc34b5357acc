package publish

import "github.com/larder-cli/larder/sources"

// TagSlot returns the slot of a provider in a registry.
func TagSlot(in leaseTags, p sources.Provider) Slot { return &tagSlot{in: in, of: p} }
