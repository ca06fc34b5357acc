package acquire

import (
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Step is what happened to a provider or package.
type Step string

// The steps, in the order in which a package may take them.
const (
	Querying  Step = "querying"  // querying a source for versions
	Skipped   Step = "skipped"   // versions were not chosen, because the policy excludes them; Text has them
	Chosen    Step = "chosen"    // the version has been chosen
	Queued    Step = "queued"    // waiting for a slot
	Waiting   Step = "waiting"   // waiting for another process that holds the package's lock
	Fetching  Step = "fetching"  // reading the archive or directory
	Arriving  Step = "arriving"  // Done of Size bytes of the archive have been received
	Verified  Step = "verified"  // all checks before unpacking have passed
	Stored    Step = "stored"    // the store has the package
	Installed Step = "installed" // the working directory has the package
	Settled   Step = "settled"   // the package is done: stored, hashed, or nonexistent; no installation was requested
	Warned    Step = "warning"   // a warning for the user
	Failed    Step = "failed"    // the provider could not be installed
)

// An Event is one step of one package, reported when it happens. Events are for
// display: a listener cannot influence the installer.
type Event struct {
	Step    Step
	Package sources.PackageID // Version and Platform are zero before they are chosen
	Source  string            // the queried source
	URL     string            // of the archive, if Fetching it from a server; without secrets
	Done    int64             // in bytes, if Arriving
	Size    int64             // in bytes, if Arriving; 0 if unknown
	Text    string            // the warning, the process we are Waiting for, or a note about the signature
	Err     error             // the cause, if Failed
	Modules []string          // if Failed, the root modules that it is about, by directory or by name; empty if not known
}

// reportEvery is the minimum interval between progress events of an archive. It does
// not apply to the last event.
const reportEvery = 200 * time.Millisecond

// Report reports an event.
func (a *Acquirer) Report(e Event) {
	if a.opts.Report == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.Report(e)
}

// reportStep reports a step of a request, unless it is a dry run.
func (a *Acquirer) reportStep(req Request, offer Offer, e Event) {
	if e.Package, e.Source = req.ID, offer.Source; !req.DryRun {
		a.Report(e)
	}
}

// Warn reports warnings about a package.
func (a *Acquirer) Warn(id sources.PackageID, warnings ...string) {
	for _, w := range warnings {
		a.Report(Event{Step: Warned, Package: id, Text: w})
	}
}
