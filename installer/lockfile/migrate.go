package lockfile

import (
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Migrate makes f lock what OpenTofu takes to be locked besides its entries: for
// each provider that Terraform's registry has in the namespace hashicorp, the
// provider of the same name in OpenTofu's own, at the same version and with no
// hashes. The warning tells the user which; it is empty if there are none.
//
// The original entries are for the caller to keep or to drop, as its
// requirements say.
func (f *File) Migrate() (warning string) {
	f.assumed = map[sources.Provider]Entry{}
	var pairs []string
	for _, e := range f.Entries() {
		if e.Provider.Host != sources.Terraform.DefaultHost() || e.Provider.Namespace != "hashicorp" {
			continue
		}
		from := e.Provider
		e.Provider.Host = sources.OpenTofu.DefaultHost()
		if _, ok := f.entries[e.Provider]; ok {
			continue
		}
		e.Hashes = nil
		f.assumed[e.Provider] = e
		pairs = append(pairs, from.String()+" as "+e.Provider.String())
	}
	if pairs == nil {
		return ""
	}
	return "the lock file is Terraform's; taking the locked versions of " + strings.Join(pairs, ", ")
}
