package acquire_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// A machine has a source, a downloader, a store and another record. Archives that are
// downloaded are texts, and so are their contents.
type machine struct {
	*testing.T
	offer     sources.Package
	askErr    error
	held      sources.Held // of the package
	recorded  map[sources.Platform]sources.Stored
	elsewhere map[sources.Platform]sources.Stored // in the other record
	recallErr error
	archive   string
	download  func(fetch.Archive, fetch.Stage) error // instead of the archive; nil for none
	recent    string                                 // archive of a recent download
	kept      string                                 // of an interrupted download
	opts      acquire.Options

	purpose   sources.Purpose
	open      int // transactions
	committed []sources.Provenance
	beginErr  error
	stageErr  error
	unpackErr error
	commitErr error
	events    []acquire.Event
	asked     int
	located   func() // called before the source delivers evidence; may be nil
}

var errStep = errors.New("this step fails")

func zh(text string) sources.Hash { return sources.ZipHash(sha256.Sum256([]byte(text))) }
func h1(text string) sources.Hash { return sources.ContentsHash(sha256.Sum256([]byte(text))) }

const url = "https://example.test/widget.zip?token=secret"

var widget, _ = sources.ParsePackageID("example.test/acme/widget", "1.0.0", "linux_amd64")

// newMachine returns a machine whose source offers the archive "a" with its hash.
func newMachine(t *testing.T) *machine {
	m := &machine{T: t, archive: "a", recorded: map[sources.Platform]sources.Stored{}, elsewhere: map[sources.Platform]sources.Stored{}}
	m.offer = sources.Package{
		ID: widget, Location: sources.Location{URL: url}, Filename: widget.Filename(),
		Hashes: []sources.Hash{zh("a")}, Kind: sources.FromNetwork, Source: "mirror",
	}
	m.opts.Report = func(e acquire.Event) { m.events = append(m.events, e) }
	return m
}

func (m *machine) acquirer() *acquire.Acquirer {
	m.opts.Memory = record{m, m.elsewhere}
	from := sources.NewMulti([]sources.Method{{Source: machineSource{m}}})
	return acquire.New(from, m, m, m.opts)
}

func (m *machine) request(locked ...sources.Hash) acquire.Request {
	return acquire.Request{ID: widget, Locked: locked, By: acquire.TheLockFile}
}

func (m *machine) acquire(req acquire.Request) (acquire.Result, error) {
	res, err := m.acquirer().Acquire(m.Context(), req, sources.Stored{})
	sourcetest.Equal(m.T, m.open, 0, "open transactions")
	return res, err
}

// steps returns the steps of the events, with the texts of warnings.
func (m *machine) steps() string {
	var all []string
	for _, e := range m.events {
		step := string(e.Step)
		if e.Step == acquire.Warned {
			step += " " + e.Text
		}
		all = append(all, step)
	}
	return strings.Join(all, ", ")
}

type machineSource struct{ *machine }

func (s machineSource) String() string { return "mirror" }

func (s machineSource) Versions(context.Context, sources.Provider) (sources.Listing, error) {
	return sources.Listing{}, nil
}

func (s machineSource) Package(ctx context.Context, _ sources.PackageID) (sources.Package, error) {
	if s.machine.asked++; s.machine.located != nil {
		offer := s.offer
		offer.Signed = nil
		sources.Located(ctx, offer)
		s.machine.located()
	}
	return s.offer, s.askErr
}

func (m *machine) Download(_ context.Context, from fetch.Archive, to fetch.Stage) error {
	if m.download != nil {
		return m.download(from, to)
	}
	from.From("https://cdn.test/widget.zip")
	_, err := io.WriteString(to, m.archive)
	return err
}

// A record has the recorded hashes of one place.
type record struct {
	*machine
	known map[sources.Platform]sources.Stored
}

func (r record) Recall(id sources.PackageID) (sources.Stored, error) {
	if r.recallErr != nil {
		return sources.Stored{}, r.recallErr
	}
	if s, ok := r.known[id.Platform]; ok && id.Version == widget.Version {
		s.ID = id
		s.Report = r.opts.Judge.Report(id.Provider, s.Proof)
		return s, nil
	}
	return sources.Stored{}, sources.ErrNotFound
}

func (r record) Recorded(sources.Provider, sources.Version) (all []sources.Platform, err error) {
	for platform := range r.known {
		all = append(all, platform)
	}
	return all, nil
}

func (r record) Evidence(sources.Provider, sources.Version) (*sources.Signed, error) {
	return nil, sources.ErrNotFound
}

func (m *machine) Recall(id sources.PackageID) (sources.Stored, error) {
	return record{m, m.recorded}.Recall(id)
}

func (m *machine) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	return record{m, m.recorded}.Recorded(p, v)
}

func (m *machine) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	return record{m, m.recorded}.Evidence(p, v)
}

func (m *machine) judged(s sources.Stored) sources.Stored {
	s.ID = widget
	s.Report = m.opts.Judge.Report(widget.Provider, s.Proof)
	return s
}

func (m *machine) Get(context.Context, sources.PackageID) (sources.Stored, error) {
	if m.held.Package.H1 == "" {
		return sources.Stored{}, sources.ErrNotFound
	}
	return m.judged(m.held.Package), nil
}

func (m *machine) PackagesOf(context.Context, sources.Provider) ([]sources.PackageID, error) {
	return nil, nil
}

func (m *machine) Use(context.Context) (release func(), err error) { return func() {}, nil }

func (m *machine) Begin(
	_ context.Context, _ sources.PackageID, purpose sources.Purpose,
) (sources.Held, sources.Tx, error) {
	m.purpose = purpose
	if m.beginErr != nil {
		return sources.Held{}, nil, m.beginErr
	}
	m.open++
	held := m.held
	if known, err := m.Recall(widget); err == nil {
		held.Known = known
	}
	held.Package = m.judged(held.Package)
	return held, &machineTx{machine: m}, nil
}

type machineTx struct {
	*machine
	stage machineStage
	sources.Contents
}

func (t *machineTx) Stage(seen sources.Observer) (sources.Stage, error) {
	t.stage.m, t.stage.Observer = t.machine, seen
	return &t.stage, t.stageErr
}

func (t *machineTx) Unpack(ctx context.Context, p sources.Payload) (_ sources.Contents, err error) {
	text := t.stage.String()
	switch {
	case p.Dir != "":
		t.Contents, err = archive.Hash(ctx, p.Dir)
		return t.Contents, err
	case p.Archive != nil:
		data, err := io.ReadAll(io.NewSectionReader(p.Archive, 0, 1<<20))
		if err != nil {
			return sources.Contents{}, err
		}
		text = string(data)
	}
	t.Contents = sources.Contents{H1: h1(text), ZipH1: h1("zip " + text)}
	return t.Contents, t.unpackErr
}

func (t *machineTx) Commit(_ context.Context, by sources.Provenance) (sources.Stored, error) {
	t.committed = append(t.committed, by)
	if t.commitErr != nil {
		return sources.Stored{}, t.commitErr
	}
	s := sources.Stored{H1: t.H1, ZipH1: t.ZipH1, ZH: by.ZH, Origin: by.Origin, Signed: by.Signed, Proof: by.Proof, Dir: "stored"}
	if t.H1 == "" { // better evidence for the package held
		s = t.held.Package
		s.Proof, s.Signed = by.Proof, by.Signed
	}
	return t.judged(s), nil
}

func (t *machineTx) Close() { t.open-- }

type machineStage struct {
	m *machine
	sourcetest.Buffer
}

func (s *machineStage) Recent(_ context.Context, want sources.Hash) (sources.Archive, error) {
	if s.m.recent == "" || want != zh(s.m.recent) {
		return nil, fs.ErrNotExist
	}
	return textArchive{strings.NewReader(s.m.recent), new(int), nil}, nil
}

func (s *machineStage) Resume(want sources.Hash) (io.Reader, string, error) {
	if s.m.kept == "" || want.Scheme() != sources.ZH {
		return nil, "", nil
	}
	_, _ = s.Buffer.WriteString(s.m.kept)
	return strings.NewReader(s.m.kept), "validator", nil
}

// A textArchive is an archive in memory. It counts how often it is closed.
type textArchive struct {
	io.ReaderAt
	closed *int
	stat   error
}

func (a textArchive) Name() string { return "text" }
func (a textArchive) Close() error { *a.closed++; return nil }
func (a textArchive) Stat() (fs.FileInfo, error) {
	return nil, a.stat
}

// evidence returns checksums of archives for platforms, "linux_amd64=a …", signed by key.
func evidence(key *sourcetest.Key, listed bool, archives string) *sources.Signed {
	var sums bytes.Buffer
	for _, a := range strings.Fields(archives) {
		platform, text, _ := strings.Cut(a, "=")
		id := widget
		id.Platform, _ = sources.ParsePlatform(platform)
		name := id.Filename()
		if id.Platform == (sources.Platform{}) {
			name = platform
		}
		fmt.Fprintf(&sums, "%s  %s\n", strings.TrimPrefix(string(zh(text)), "zh:"), name)
	}
	return &sources.Signed{
		Sums: sums.Bytes(), Signature: key.Sign(sums.Bytes()), Origin: "https://example.test/SHA256SUMS",
		Keys: []sources.Key{sources.Key{Armor: key.Armor()}.AsListed(listed)},
	}
}

// proofBy returns the proof that evidence of a key is worth v.
func proofBy(key *sourcetest.Key, listed bool) sources.Proof {
	proof, err := trust.Judge{}.Prove(context.Background(), widget.Provider, evidence(key, listed, "linux_amd64=a"), zh("a"))
	if err != nil {
		panic(err)
	}
	return proof
}

// local returns a directory and an archive with the same provider.
func local(t *testing.T, text string) (dir, zipped string) {
	t.Helper()
	const name = "terraform-provider-widget_v1.0.0"
	dir, zipped = filepath.Join(t.TempDir(), "dir"), filepath.Join(t.TempDir(), "widget.zip")
	sourcetest.Check(t, os.Mkdir(dir, 0o755))
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	f := sourcetest.Must(os.Create(zipped))(t)
	z := zip.NewWriter(f)
	w := sourcetest.Must(z.Create(name))(t)
	sourcetest.Must(io.WriteString(w, text))(t)
	sourcetest.Check(t, z.Close())
	sourcetest.Check(t, f.Close())
	return dir, zipped
}

// zipHash returns the hash of an archive on this machine.
func zipHash(t *testing.T, path string) sources.Hash {
	t.Helper()
	return zh(string(sourcetest.ReadFile(t, path)))
}
