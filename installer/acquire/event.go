package acquire

import (
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Step is what happened to a provider or package.
type Step string

// The steps, in the order in which a package may take them.
const (
	Querying  Step = "querying"  // a source is asked for its versions
	Chosen    Step = "chosen"    // the version is settled
	Queued    Step = "queued"    // there is no slot for the package yet
	Waiting   Step = "waiting"   // another process holds the package's lock
	Fetching  Step = "fetching"  // the archive or directory is being read
	Arriving  Step = "arriving"  // Done of Size bytes of the archive are here
	Verified  Step = "verified"  // all that can be checked before unpacking is right
	Stored    Step = "stored"    // the store has the package
	Installed Step = "installed" // the working directory has the package
	Settled   Step = "settled"   // the store has the package, or its hashes are known, or there is none, and nothing else was required
	Warned    Step = "warning"   // something the user should know
	Failed    Step = "failed"    // the provider could not be installed
)

// An Event is one step in the life of one package, told as it happens. It is
// for showing: nothing a listener does changes what the installer does.
type Event struct {
	Step    Step
	Package sources.PackageID // Version and Platform are zero before they are chosen
	Source  string            // that we query or have queried
	URL     string            // of the archive, if Fetching it from afar; fit to be shown
	Done    int64             // bytes, if Arriving
	Size    int64             // bytes, if Arriving; 0 if unknown
	Text    string            // the warning, the process we are Waiting for, or a note about the signature
	Err     error             // why, if Failed
}

// reportEvery is the least time between two events of how far an archive has come,
// but for the last.
const reportEvery = 200 * time.Millisecond

// A reporter passes events on, one at a time.
type reporter struct {
	mu *sync.Mutex
	to func(Event)
}

func newReporter(to func(Event)) reporter { return reporter{new(sync.Mutex), to} }

func (r reporter) event(e Event) {
	if r.to == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to(e)
}
