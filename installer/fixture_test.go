package installer_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// Packages in these tests are texts, such as "widget 1.0.0 linux_amd64", and so are
// their archives.

func zh(text string) sources.Hash { return sources.ZipHash(sha256.Sum256([]byte(text))) }

func h1(text string) sources.Hash {
	sum := sha256.Sum256([]byte("contents of " + text))
	return sources.Hash("h1:" + base64.StdEncoding.EncodeToString(sum[:]))
}

// A fixture is everything that an installer uses.
type fixture struct {
	t      *testing.T
	opts   installer.Options
	root   installer.Root
	source *fakeSource
	store  *fakeStore
	kept   *sources.Signed // evidence in the store for every version; nil if there is none

	events []acquire.Event
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t}
	dir := t.TempDir()
	f.root = installer.Root{Dir: dir, DataDir: filepath.Join(dir, ".terraform"), Lock: &lockfile.File{}}
	f.source = &fakeSource{
		versions: map[sources.Provider]sources.Listing{}, packages: map[sources.PackageID]sources.Package{},
		fails: map[sources.Provider]error{}, archives: map[string]string{},
	}
	f.store = &fakeStore{dir: t.TempDir(), entries: map[sources.PackageID]sources.Stored{}, known: map[sources.PackageID]sources.Stored{}, installed: map[string]sources.Stored{}}
	f.opts = installer.Options{Platforms: []sources.Platform{platform("linux_amd64")}}
	f.opts.Report = f.report
	return f
}

func (f *fixture) report(e acquire.Event) { // called one at a time, so it requires no lock
	f.events = append(f.events, e)
}

func (f *fixture) must(err error) {
	f.t.Helper()
	sourcetest.Check(f.t, err)
}

func platform(s string) sources.Platform { return must(sources.ParsePlatform(s)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func provider(typ string) sources.Provider {
	return must(sources.ParseProvider("example.test/acme/"+typ, sources.Terraform))
}

// id parses "TYPE VERSION OS_ARCH".
func id(text string) sources.PackageID {
	words := strings.Fields(text)
	return sources.PackageID{Provider: provider(words[0]), Version: must(sources.ParseVersion(words[1])), Platform: platform(words[2])}
}

// require adds a requirement for the provider with the type.
func (f *fixture) require(typ, constraints string) {
	r := sources.Requirement{Provider: provider(typ), From: []sources.Origin{{File: "main.tf", Line: 3, Constraint: constraints}}}
	if constraints != "" {
		r.Constraints = must(sources.ParseConstraints(constraints))
	}
	f.root.Requirements = append(f.root.Requirements, r)
}

// lock writes a lock file with a block for each "TYPE VERSION", with hashes.
func (f *fixture) lock(what string, hashes ...sources.Hash) {
	f.t.Helper()
	words := strings.Fields(what)
	old, _ := os.ReadFile(f.lockPath())
	text := fmt.Sprintf("%s\nprovider %q {\n  version = %q\n", old, provider(words[0]), words[1])
	if len(hashes) > 0 {
		text += fmt.Sprintf("  hashes = [\n    \"%s\",\n  ]\n", strings.Join(texts(hashes), "\",\n    \""))
	}
	f.must(os.WriteFile(f.lockPath(), []byte(text+"}\n"), 0o644))
	lock, ds := lockfile.Read(f.lockPath())
	f.must(ds.Err())
	f.root.Lock = lock
}

func texts(hashes []sources.Hash) []string {
	var all []string
	for _, h := range hashes {
		all = append(all, string(h))
	}
	return all
}

func (f *fixture) lockPath() string { return filepath.Join(f.root.Dir, lockfile.Name) }

// locked returns the contents of the lock file without the boilerplate.
func (f *fixture) locked() string {
	f.t.Helper()
	lock, ds := lockfile.Read(f.lockPath())
	f.must(ds.Err())
	var lines []string
	for _, e := range lock.Entries() {
		line := e.Provider.Type + " " + e.Version.String()
		if !e.Constraints.Empty() {
			line += " (" + e.Constraints.String() + ")"
		}
		lines = append(lines, strings.Join(append([]string{line}, texts(e.Hashes)...), " "))
	}
	return strings.Join(lines, "\n")
}

func (f *fixture) install() (*installer.Result, error) {
	f.t.Helper()
	f.store.judge = f.opts.Judge
	return installer.New(f.source, f.store, f.source, f.opts).Install(f.t.Context(), f.root)
}

// plan returns the plan for the first requirement. It queries what an installation queries.
func (f *fixture) plan() (installer.Plan, error) {
	f.t.Helper()
	f.store.judge = f.opts.Judge
	return installer.New(f.source, f.store, f.source, f.opts).Plan(f.t.Context(), f.root, f.root.Requirements[0])
}

// outcome returns "TYPE VERSION OS_ARCH: how, verdict" of each package.
func outcome(r *installer.Result) string {
	var lines []string
	for _, o := range r.Packages {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s, %s", o.Package.ID.Provider.Type, o.Package.ID.Version, o.Package.ID.Platform, o.How, o.Package.Report.Verdict))
	}
	return strings.Join(lines, "\n")
}

// A fakeSource has the packages that a test adds, and downloads them too.
type fakeSource struct {
	versions map[sources.Provider]sources.Listing
	packages map[sources.PackageID]sources.Package
	fails    map[sources.Provider]error
	archives map[string]string // by URL
	offline  bool              // all queries fail
	wait     chan struct{}     // if not nil, downloads block until it is closed

	mu    sync.Mutex
	asked []string // "versions TYPE", "package TYPE VERSION OS_ARCH" and "download URL"
}

func (s *fakeSource) String() string { return "fake" }

func (s *fakeSource) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
}

// log returns the sorted requests.
func (s *fakeSource) log() string { return strings.Join(slices.Sorted(slices.Values(s.asked)), "\n") }

func (s *fakeSource) Versions(_ context.Context, p sources.Provider) (sources.Listing, error) {
	s.note("versions %s", p.Type)
	if s.offline {
		return sources.Listing{Unasked: []string{"fake"}}, &sources.ProviderError{Provider: p, Err: sources.ErrOffline}
	}
	if err := s.fails[p]; err != nil {
		return sources.Listing{}, err
	}
	listing, ok := s.versions[p]
	if !ok {
		return listing, &sources.ProviderError{Provider: p, Err: sources.ErrNotFound}
	}
	return listing, nil
}

func (s *fakeSource) Package(_ context.Context, id sources.PackageID) (sources.Package, error) {
	s.note("package %s %s %s", id.Provider.Type, id.Version, id.Platform)
	if s.offline {
		return sources.Package{}, &sources.PackageError{ID: id, Err: sources.ErrOffline}
	}
	pkg, ok := s.packages[id]
	if !ok {
		return pkg, &sources.PackageError{ID: id, Err: sources.ErrNoPlatform}
	}
	if pkg.Kind == sources.FromRegistry && pkg.Signed != nil {
		listed := *pkg.Signed
		listed.Keys = slices.Clone(listed.Keys)
		for i, k := range listed.Keys {
			listed.Keys[i] = k.AsListed(true)
		}
		pkg.Signed = &listed
	}
	return pkg, nil
}

func (s *fakeSource) Download(ctx context.Context, from fetch.Archive, to fetch.Stage) error {
	url := from.URL
	s.note("download %s", url)
	if s.wait != nil {
		select {
		case <-s.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	text, ok := s.archives[url]
	if !ok {
		return errors.New("no answer")
	}
	// The first bytes are wrong, as after a broken connection.
	if _, err := io.WriteString(to, "no"); err != nil {
		return err
	}
	if err := to.Begin(""); err != nil {
		return err
	}
	_, err := io.WriteString(to, text)
	return err
}

// add publishes a package whose archive is its text.
func (s *fakeSource) add(text string, edit func(*sources.Package)) {
	pid := id(text)
	url := "https://example.test/" + pid.Path() + ".zip"
	listing := s.versions[pid.Provider]
	if !slices.Contains(listing.Versions, pid.Version) {
		listing.Versions = append(listing.Versions, pid.Version)
	}
	s.versions[pid.Provider] = listing
	s.archives[url] = text
	pkg := sources.Package{
		ID: pid, Location: sources.Location{URL: url}, Filename: "terraform-provider-" + strings.ReplaceAll(text, " ", "_") + ".zip",
		Source: "registry example.test", Kind: sources.FromRegistry, Hashes: []sources.Hash{zh(text)},
	}
	if edit != nil {
		edit(&pkg)
	}
	s.packages[pid] = pkg
}

// other is another platform's package, as in signed checksums.
const other = "other platform"

// signed signs the package's archive and another one as the publisher.
func signed(p *sources.Package) { signedAs(p, p.Filename) }

// signedFor signs the package's archive under the file name of another package as the
// publisher.
func signedFor(text string) func(*sources.Package) {
	return func(p *sources.Package) { signedAs(p, id(text).Filename()) }
}

func signedAs(p *sources.Package, name string) { signWith(sourcetest.Publisher(), p, name) }

func signWith(key *sourcetest.Key, p *sources.Package, name string) {
	p.Signed = evidenceBy(key, name, p.Hashes[0], "other.zip", zh(other))
}

// evidenceBy returns checksums, given as NAME HASH ..., that a key signed.
func evidenceBy(key *sourcetest.Key, files ...any) *sources.Signed {
	var sums []byte
	for pair := range slices.Chunk(files, 2) {
		sums = fmt.Appendf(sums, "%s  %s\n", strings.TrimPrefix(fmt.Sprint(pair[1]), "zh:"), pair[0])
	}
	return &sources.Signed{Sums: sums, Signature: key.Sign(sums), Keys: []sources.Key{{Armor: key.Armor()}}}
}

// fromMirror offers the package in a network mirror with these hashes.
func fromMirror(hashes ...sources.Hash) func(*sources.Package) {
	return func(p *sources.Package) {
		p.Kind, p.Source, p.Hashes = sources.FromNetwork, "network mirror", hashes
	}
}

// evidence adds evidence as a mirror carries it.
func evidence(p *sources.Package) {
	p.Kind, p.Source = sources.FromFilesystem, "filesystem mirror"
	signed(p)
	p.Hashes = nil
}

// A fakeStore holds packages in memory.
type fakeStore struct {
	dir string

	mu        sync.Mutex
	entries   map[sources.PackageID]sources.Stored
	known     map[sources.PackageID]sources.Stored
	evidence  map[sources.Version]*sources.Signed
	installed map[string]sources.Stored // by target
	judge     trust.Judge
	recallErr error // error of Recall for unknown packages; not found by default
}

func (s *fakeStore) Get(_ context.Context, id sources.PackageID) (sources.Stored, error) {
	return s.get(s.entries, id)
}

func (s *fakeStore) PackagesOf(_ context.Context, p sources.Provider) (ids []sources.PackageID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.entries {
		if id.Provider == p {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, sources.PackageID.Compare)
	return ids, nil
}

func (s *fakeStore) get(from map[sources.PackageID]sources.Stored, id sources.PackageID) (sources.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := from[id]
	if !ok {
		return stored, sources.ErrNotFound
	}
	return s.judged(stored), nil
}

// judged returns a package with what its evidence proves now and what that is worth, as
// real stores do. Evidence that proves nothing about the package is not the package's.
func (s *fakeStore) judged(stored sources.Stored) sources.Stored {
	if stored.Signed != nil {
		proof, err := s.judge.Prove(context.Background(), stored.ID.Provider, stored.Signed, stored.ZH)
		if err == nil {
			stored.Proof = proof
		} else {
			stored.Signed = nil
		}
	}
	stored.Report = s.judge.Report(stored.ID.Provider, stored.Proof)
	return stored
}

// proven is a proof that is worth v, of a package from a registry or a mirror.
func proven(id sources.PackageID, v sources.Verdict) sources.Proof {
	switch v {
	case sources.Unverified:
		return sources.Proof{}
	case sources.HashOnly:
		return sources.Proof{Matched: true}
	}
	from := sources.KeyFromMirror
	if v == sources.SelfSigned {
		from = sources.KeyFromRegistry
	}
	return sources.Proof{Name: id.Filename(), Signers: []sources.Signer{{Fingerprint: "0123456789ABCDEF", From: from}}}
}

func (s *fakeStore) Recall(id sources.PackageID) (sources.Stored, error) {
	known, err := s.get(s.known, id)
	if err != nil && s.recallErr != nil {
		err = s.recallErr
	}
	return known, err
}

func (s *fakeStore) Recorded(p sources.Provider, v sources.Version) (all []sources.Platform, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.known {
		if id.Provider == p && id.Version == v {
			all = append(all, id.Platform)
		}
	}
	return all, nil
}

func (s *fakeStore) Evidence(_ sources.Provider, v sources.Version) (*sources.Signed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if signed := s.evidence[v]; signed != nil {
		return signed, nil
	}
	return nil, sources.ErrNotFound
}

func (s *fakeStore) Use(context.Context) (release func(), err error) { return func() {}, nil }

func (s *fakeStore) Workdir(_, providers string) sources.Workdir { return fakeWorkdir{s, providers} }

// A fakeWorkdir is a working directory in the same memory.
type fakeWorkdir struct {
	*fakeStore
	providers string
}

func (w fakeWorkdir) target(id sources.PackageID) string {
	return filepath.Join(w.providers, filepath.FromSlash(id.Path()))
}

func (w fakeWorkdir) Get(_ context.Context, id sources.PackageID) (sources.Stored, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored, ok := w.installed[w.target(id)]
	if !ok {
		return stored, sources.ErrNotFound
	}
	return w.judged(stored), nil
}

func (w fakeWorkdir) PackagesOf(_ context.Context, p sources.Provider) (ids []sources.PackageID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for target, s := range w.installed {
		if s.ID.Provider == p && target == w.target(s.ID) {
			ids = append(ids, s.ID)
		}
	}
	slices.SortFunc(ids, sources.PackageID.Compare)
	return ids, nil
}

func (w fakeWorkdir) Link(_ context.Context, stored sources.Stored) (sources.LinkMode, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.installed[w.target(stored.ID)] = stored
	return sources.LinkHard, nil
}

func (w fakeWorkdir) Unwritable(sources.Stored) error { return nil }

func (w fakeWorkdir) Register([]sources.PackageID) {}

func (w fakeWorkdir) Close() error { return nil }

func (s *fakeStore) Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (held sources.Held, _ sources.Tx, err error) {
	if held.Known, err = s.Recall(id); err != nil && !errors.Is(err, sources.ErrNotFound) {
		return held, nil, err
	}
	held.Package, _ = s.Get(ctx, id)
	return held, &fakeTx{store: s, id: id, purpose: purpose}, nil
}

// A fakeTx stores a package in memory.
type fakeTx struct {
	store    *fakeStore
	id       sources.PackageID
	purpose  sources.Purpose
	staged   sourcetest.Buffer
	contents sources.Contents
}

func (t *fakeTx) Stage(seen sources.Observer) (sources.Stage, error) {
	t.staged.Observer = seen
	return &t.staged, nil
}

func (t *fakeTx) Unpack(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	var err error
	t.contents, err = unpack(ctx, from, &t.staged)
	return t.contents, err
}

func (t *fakeTx) Commit(_ context.Context, by sources.Provenance) (sources.Stored, error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if by.Signed != nil && by.Proof.Signed() { // references to evidence contain which keys were listed
		marked := *by.Signed
		marked.Keys = slices.Clone(marked.Keys)
		for i, k := range marked.Keys {
			marked.Keys[i] = k.AsListed(by.Proof.Signers[0].From == sources.KeyFromRegistry)
		}
		by.Signed = &marked
	}
	if t.contents.H1 == "" { // nothing was unpacked: the commit concerns the existing package
		s := t.store.entries[t.id]
		s.Signed, s.Proof = by.Signed, by.Proof
		t.store.entries[t.id] = s
		return t.store.judged(s), nil
	}
	s := sources.Stored{
		ID: t.id, H1: t.contents.H1, ZipH1: t.contents.ZipH1, ZH: by.ZH,
		Filename: by.Filename, Proof: by.Proof, Origin: by.Origin, Signed: by.Signed,
	}
	if t.purpose == sources.ToHash {
		t.store.known[t.id] = s
		return t.store.judged(s), nil
	}
	s.Dir = filepath.Join(t.store.dir, t.id.Path())
	t.store.entries[t.id] = s
	return t.store.judged(s), nil
}

func (t *fakeTx) Close() {}

// unpack returns the contents of a package.
func unpack(ctx context.Context, p sources.Payload, staged *sourcetest.Buffer) (sources.Contents, error) {
	text := staged.String()
	switch {
	case p.Dir != "":
		return archive.Hash(ctx, p.Dir)
	case p.Archive != nil:
		data, err := io.ReadAll(io.NewSectionReader(p.Archive, 0, 1<<20))
		if err != nil {
			return sources.Contents{}, err
		}
		text = string(data)
	}
	return sources.Contents{H1: h1(text), ZipH1: h1(text)}, nil
}

// keep puts a package into the store as if it came from a source.
func (s *fakeStore) keep(text string, verdict sources.Verdict, evidence *sources.Signed) {
	s.entries[id(text)] = sources.Stored{ID: id(text), H1: h1(text), ZH: zh(text), Proof: proven(id(text), verdict), Signed: evidence}
}

// has lists the contents of the store.
func (s *fakeStore) has() string {
	var all []string
	for id := range maps.Keys(s.entries) {
		all = append(all, fmt.Sprintf("%s %s %s", id.Provider.Type, id.Version, id.Platform))
	}
	return strings.Join(slices.Sorted(slices.Values(all)), "\n")
}

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }
