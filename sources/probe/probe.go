// Package probe tries each step of the protocol of a registry or a network mirror, and reports what the server
// does. It sends the same requests as an installation, once each, with the credentials, proxies and authorities
// of its client, and some for features that only matter when something goes wrong. It downloads at most a part
// of an archive, verifies no signatures, writes no files and prints nothing.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/registry"
)

// The names of steps.
const (
	Discovery = "discovery" // the services of a host
	Versions  = "versions"  // a registry's list of versions
	Package   = "package"   // a registry's description of a package
	Checksums = "checksums" // its signed checksums
	Index     = "index"     // a mirror's index.json
	Version   = "version"   // its VERSION.json
	Evidence  = "evidence"  // Larder's extension in VERSION.json
	Archive   = "archive"
)

// The names of features that a server may support.
const (
	Ranges      = "ranges"
	Resumption  = "resumption"
	Conditional = "conditional requests"
	Signatures  = "signed checksums"
)

const (
	stepTime      = 30 * time.Second // for all requests of a step
	maxCandidates = 5                // providers to try
)

// Options describe what to try.
type Options struct {
	Client     *fetch.Client
	Engine     sources.Engine
	Services   map[sources.Host]map[string]string // see [registry.Options]
	Platform   sources.Platform
	Candidates []Candidate // providers to try, in order, until the server has one
	Others     []Candidate // for a host that is no registry, but may be a mirror
	Mirrors    []string    // URLs of configured mirrors at the host

	// TokenForArchives reports whether the token of a URL's host is sent with requests for archives, which
	// engines never do. It may be nil.
	TokenForArchives func(rawURL string) bool
}

// A Candidate is a provider that the server may have.
type Candidate struct {
	Provider    sources.Provider
	Constraints sources.Constraints
	Locked      sources.Version // zero if none is locked
}

// choose returns the version to try: the locked one, else the newest allowed one, else the newest.
func (c Candidate) choose(versions []sources.Version) (sources.Version, bool) {
	for _, v := range versions {
		if v == c.Locked {
			return v, true
		}
	}
	if v, ok := c.Constraints.Newest(versions); ok {
		return v, true
	}
	if len(versions) == 0 {
		return sources.Version{}, false
	}
	return versions[len(versions)-1], true
}

// A Report is the result of all steps.
type Report struct {
	Mirror  bool   // the server was tried as a network mirror, not as a registry
	Server  string // base URL of the mirror, without user information and query, or host of the registry
	ID      sources.PackageID
	Package sources.Package // zero if there was none
	Steps   []Result

	Served, NotServed []string // features; those that could not be tried are in neither

	Latency time.Duration // until the first answer began; 0 if there was none
	Rate    int64         // of the archive's download, in bytes a second; 0 if it is too small to measure
}

// A Result is the result of a step.
type Result struct {
	Step      string
	Tried     bool
	URL       string // without user information and query
	Status    int    // of the last answer; 0 if there was none
	Took      time.Duration
	Bytes     int64
	Found     string // what the server sent
	Findings  []Finding
	Exchanges []fetch.Exchange
}

// Failed reports whether the step failed.
func (r Result) Failed() bool {
	for _, f := range r.Findings {
		if f.Fails {
			return true
		}
	}
	return false
}

// A walk is a series of steps. After a step that fails, no other is tried.
type walk struct {
	Options
	Report
	over bool
}

// step tries a step. Do sets what the server sent, and findings that don't end the step. It returns the error that does.
func (w *walk) step(ctx context.Context, name string, do func(context.Context, *Result) error) *Result {
	w.Steps = append(w.Steps, Result{Step: name})
	r := &w.Steps[len(w.Steps)-1]
	if w.over || ctx.Err() != nil {
		return r
	}
	limited, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	var trace fetch.Trace
	start := time.Now()
	err := do(trace.Record(limited), r)
	if limited.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no complete answer within %s", fetch.ErrStalled, stepTime)
	}
	r.Tried, r.Exchanges, r.Took = true, trace.Exchanges(), time.Since(start)
	w.finish(r, err)
	return r
}

// finish takes the result of a step from its exchanges.
func (w *walk) finish(r *Result, err error) {
	if r.Step == Checksums || r.Step == Evidence { // these requests are sent at once, in no order
		slices.SortFunc(r.Exchanges, func(a, b fetch.Exchange) int {
			return cmp.Or(badness(a.Status)-badness(b.Status), len(b.URL)-len(a.URL))
		})
	}
	for _, e := range r.Exchanges {
		r.URL, r.Status = e.URL, e.Status
		r.Bytes += e.Bytes
		if w.Latency == 0 && e.Status != 0 {
			w.Latency = e.Wait
		}
	}
	if err != nil {
		r.Findings = append([]Finding{failure(err, r)}, r.Findings...)
	}
	r.Findings = append(r.Findings, remarks(r)...)
	w.over = w.over || r.Failed()
}

// badness orders statuses: those of failures come last.
func badness(status int) int {
	if status == 0 {
		return 600
	}
	return status
}

// feature records whether the server supports a feature.
func (w *walk) feature(name string, served bool) {
	if served {
		w.Served = append(w.Served, name)
	} else {
		w.NotServed = append(w.NotServed, name)
	}
}

// Registry tries the registry of a host.
func Registry(ctx context.Context, opts Options, host sources.Host) Report {
	w := &walk{Options: opts, Report: Report{Server: string(host)}}
	r := registry.New(opts.Client, registry.Options{Engine: opts.Engine, Services: opts.Services})
	w.step(ctx, Discovery, func(ctx context.Context, s *Result) error {
		base, err := r.Discover(ctx, host)
		if err != nil {
			return w.notRegistry(ctx, host, err)
		}
		s.Found = "registry at " + fetch.Redact(base.String())
		if _, ok := opts.Services[host]; ok {
			s.URL = fetch.Redact(base.String())
			s.Found = "from the host block in the CLI configuration"
		}
		return nil
	})
	w.versions(ctx, Versions, r, "the registry")
	if s := &w.Steps[1]; s.Failed() && s.Findings[0].Trap == "not-found" && opts.Services[host] != nil {
		w.Mirrors = []string{opts.Services[host]["providers.v1"]}
		if mixed, ok := errors.AsType[*mixedUp](w.notRegistry(ctx, host, sources.ErrNotFound)); ok {
			s.Findings[0] = mixed.Finding
		}
	}
	w.registryPackage(ctx, r)
	w.archive(ctx)
	return w.Report
}

// Mirror tries the network mirror with a base URL.
func Mirror(ctx context.Context, opts Options, base *url.URL) Report {
	w := &walk{Options: opts, Report: Report{Mirror: true, Server: fetch.Redact(base.String())}}
	m, err := netmirror.New(opts.Client, base.String(), netmirror.Options{TrustAllHashes: opts.Engine == sources.OpenTofu})
	if err != nil {
		w.step(ctx, Index, func(context.Context, *Result) error { return err })
		return w.Report
	}
	w.versions(ctx, Index, m, "the mirror")
	first := &w.Steps[0]
	if path := base.Path; path != "" && !strings.HasSuffix(path, "/") {
		first.Findings = append(first.Findings, noSlash(base))
	}
	if first.Failed() && answered(first) && ctx.Err() == nil {
		w.notMirror(ctx, first, base)
	}
	w.mirrorPackage(ctx, m)
	w.archive(ctx)
	return w.Report
}

// answered reports whether the server answered the last request of a step, other than with an error of its own.
func answered(r *Result) bool { return r.Status != 0 && r.Status < 500 && r.Status != 429 }

// versions tries to list the versions of the candidates, until the server has one.
func (w *walk) versions(ctx context.Context, step string, from sources.Source, what string) {
	s := w.step(ctx, step, func(ctx context.Context, s *Result) error {
		if len(w.Candidates) == 0 {
			w.over = true
			s.Findings = []Finding{{Trap: "no-provider", Text: "no provider to try is known here", Fix: fmt.Sprintf("name one: larder doctor %s NAMESPACE/TYPE", w.Server)}}
			return nil
		}
		var tried []string
		for _, c := range w.Candidates[:min(len(w.Candidates), maxCandidates)] {
			listing, err := from.Versions(ctx, c.Provider)
			tried = append(tried, c.Provider.String())
			if errors.Is(err, sources.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			return w.chosen(s, c, listing)
		}
		err := fmt.Errorf("%w in %s: %s", sources.ErrNotFound, what, strings.Join(tried, ", "))
		return sources.WithHint(err, "check the address, or name a provider that it has: larder doctor %s NAMESPACE/TYPE", w.Server)
	})
	if i := len(s.Exchanges) - 1; i >= 0 && s.Exchanges[i].Status == http.StatusOK && !s.Failed() {
		unchanged, err := w.Client.Unchanged(ctx, s.Exchanges[i])
		w.feature(Conditional, unchanged && err == nil)
	}
}

// chosen takes the version to try from the versions of a candidate.
func (w *walk) chosen(s *Result, c Candidate, l sources.Listing) error {
	w.ID = sources.PackageID{Provider: c.Provider, Platform: w.Platform}
	for _, warning := range l.Warnings {
		s.Findings = append(s.Findings, Finding{Trap: "odd-versions", Text: warning})
	}
	v, ok := c.choose(l.Versions)
	if !ok {
		return fmt.Errorf("%s has no version", c.Provider)
	}
	w.ID.Version = v
	s.Found = fmt.Sprintf("%d versions of %s, newest %s", len(l.Versions), c.Provider, l.Versions[len(l.Versions)-1])
	if len(l.Versions) == 1 {
		s.Found = fmt.Sprintf("1 version of %s: %s", c.Provider, v)
	}
	return nil
}

// registryPackage tries to fetch the description of the package, and its signed checksums. The registry fetches
// them in one call, so the exchanges tell which step failed.
func (w *walk) registryPackage(ctx context.Context, r *registry.Registry) {
	var err error
	first := w.step(ctx, Package, func(ctx context.Context, s *Result) error {
		w.Package, err = r.Package(ctx, w.ID)
		s.Found = w.Package.Filename
		return err
	})
	own := firstAnswer(first.Exchanges)
	further := first.Exchanges[own:]
	signed, ok := errors.AsType[*registry.SignedError](err)
	if ok {
		w.redo(first, first.Exchanges[:own], nil)
	} else {
		w.redo(first, first.Exchanges[:own], err)
	}
	second := w.step(ctx, Checksums, func(context.Context, *Result) error { return nil })
	if second.Tried {
		second.Found = "SHA-256 checksums and their signature"
		if err = nil; ok {
			err = signed.Err
		}
		w.redo(second, further, err)
		w.feature(Signatures, err == nil)
	}
}

// mirrorPackage is registryPackage for a mirror. Its evidence is optional.
func (w *walk) mirrorPackage(ctx context.Context, m *netmirror.Mirror) {
	var err error
	first := w.step(ctx, Version, func(ctx context.Context, s *Result) error {
		w.Package, err = m.Package(ctx, w.ID)
		s.Found = w.Package.Filename
		return err
	})
	own := firstAnswer(first.Exchanges)
	further := first.Exchanges[own:]
	w.redo(first, first.Exchanges[:own], err)
	second := w.step(ctx, Evidence, func(context.Context, *Result) error { return nil })
	if !second.Tried {
		return
	}
	switch second.Found = "none: only hashes"; {
	case w.Package.Signed != nil:
		second.Found = "signed checksums"
	case len(w.Package.Warnings) > 0:
		second.Found = ""
		for _, text := range w.Package.Warnings {
			second.Findings = append(second.Findings, Finding{Trap: "evidence-ignored", Text: text,
				Why: "packages from this mirror are verified by hash only", Fix: "rebuild the mirror's documents: larder mirror index DIR"})
		}
	}
	findings := second.Findings
	w.redo(second, further, nil)
	second.Findings = append(findings, second.Findings...)
	w.feature(Evidence, w.Package.Signed != nil)
}

// firstAnswer returns the number of exchanges up to the first answer that is no redirect.
func firstAnswer(all []fetch.Exchange) int {
	for i, e := range all {
		if e.Location == "" {
			return i + 1
		}
	}
	return len(all)
}

// redo replaces the exchanges of a step, and its result.
func (w *walk) redo(r *Result, exchanges []fetch.Exchange, err error) {
	if !r.Tried {
		return
	}
	w.over = false
	*r = Result{Step: r.Step, Tried: true, Found: r.Found, Exchanges: exchanges}
	for _, e := range exchanges {
		if r.Step == Checksums || r.Step == Evidence {
			r.Took = max(r.Took, e.Took)
		} else {
			r.Took += e.Took
		}
	}
	w.finish(r, err)
}
