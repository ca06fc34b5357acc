package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/staging"
)

// Filename is the name of a package's archive in a mirror.
func Filename(id sources.PackageID) string {
	return fmt.Sprintf("terraform-provider-%s_%s_%s.zip", id.Provider.Type, id.Version, id.Platform)
}

// Get says what the mirror has for id, in the layout that new packages get. It
// reads the package only if no record tells. The error matches
// [sources.ErrNotFound] if there is none that could be used.
func (b *Builder) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, err := b.look(ctx, at)
	if err != nil {
		return sources.Stored{}, named(id, err)
	}
	return b.stored(at, r), nil
}

// Recall says what a package hashed to when it was last looked at.
func (b *Builder) Recall(id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, ok := b.recall(at)
	if !ok || r.Verdict == sources.Unverified {
		return sources.Stored{}, named(id, sources.ErrNotFound)
	}
	s := b.stored(at, r)
	s.Dir = ""
	return s, nil
}

// look finds out what a package hashes to.
func (b *Builder) look(ctx context.Context, at spot) (record, error) {
	now := mark(at)
	if now == "" {
		return record{}, sources.ErrNotFound
	}
	old, ok := b.recall(at)
	if ok && old.Mark == now && !b.opts.Paranoid {
		return old, nil
	}
	fresh, _, err := hash(ctx, at.path)
	if err != nil {
		return record{}, err
	}
	if ok && old.same(fresh) {
		fresh = old
	} else {
		fresh.Since = b.opts.Now().UTC()
	}
	fresh.Mark = now
	b.note(at, fresh)
	return fresh, nil
}

// same reports whether a package still is what its record says. The archive that
// an unpacked one came from is known by the record alone.
func (r record) same(fresh record) bool {
	return r.H1 == fresh.H1 && (fresh.ZH == "" || r.ZH == fresh.ZH)
}

// hash reads a package.
func hash(ctx context.Context, path string) (record, sources.Contents, error) {
	info, err := os.Stat(path)
	if err != nil {
		return record{}, sources.Contents{}, err
	}
	if info.IsDir() {
		contents, err := archive.Hash(ctx, path)
		return record{H1: contents.H1}, contents, err
	}
	f, err := os.Open(path)
	if err != nil {
		return record{}, sources.Contents{}, err
	}
	defer f.Close()
	contents, err := archive.Sum(ctx, f, info.Size(), archive.Limits{})
	if err != nil {
		return record{}, contents, fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return record{}, contents, err
	}
	return record{H1: contents.H1, ZipH1: contents.ZipH1, ZH: sources.ZipHash([32]byte(sum.Sum(nil)))}, contents, nil
}

func (b *Builder) stored(at spot, r record) sources.Stored {
	s := sources.Stored{
		ID: at.id, Dir: at.path, H1: r.H1, ZipH1: r.ZipH1, ZH: r.ZH, Filename: Filename(at.id),
		Verdict: r.Verdict, Origin: r.Origin, Since: r.Since,
	}
	signed, err := sources.ReadEvidence(b.evidence(at.id.Provider, at.id.Version))
	if err != nil {
		return s
	}
	if r.Evidence == digest(signed) {
		s.Signed = signed
		return s
	}
	return b.vouched(at, r, s, signed)
}

// vouched is a package whose record knows nothing of the evidence that there is,
// judged by that.
func (b *Builder) vouched(at spot, r record, s sources.Stored, signed *sources.Signed) sources.Stored {
	if b.opts.Vouch == nil || r.ZH == "" {
		return s
	}
	with := s
	with.Signed = signed
	verdict, err := b.opts.Vouch(with)
	if err != nil {
		return s
	}
	r.Verdict, r.Evidence = verdict, digest(signed)
	b.note(at, r)
	with.Verdict = verdict
	return with
}

func digest(s *sources.Signed) string {
	if s == nil {
		return ""
	}
	sum := sha256.Sum256(s.Sums)
	return hex.EncodeToString(sum[:])
}

// Put puts a package into the mirror, unless the delivery accepts the one that is
// there. Until [Builder.Finish] the index does not name it.
func (b *Builder) Put(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	b.busy.RLock()
	defer b.busy.RUnlock()
	defer b.turn(id)()
	s, err := b.Get(ctx, id)
	if err == nil && del.Accept(s) {
		return b.regarded(s, del)
	}
	if err := b.canHave(id.Provider.Host); err != nil {
		return sources.Stored{}, named(id, err)
	}
	at := b.place(id, b.opts.Unpacked)
	r, err := b.put(ctx, at, del)
	if err != nil {
		return sources.Stored{}, named(id, refusal(err))
	}
	b.note(at, r)
	return b.stored(at, r), nil
}

// regarded is a package that was there, with what the delivery's source knows of it
// besides: the evidence of a mirror that others have made.
func (b *Builder) regarded(s sources.Stored, del sources.Delivery) (sources.Stored, error) {
	at := b.place(s.ID, b.opts.Unpacked)
	r, ok := b.recall(at)
	if del.Regard == nil || !ok {
		return s, nil
	}
	signed, verdict := del.Regard(s)
	if signed == nil {
		return s, nil
	}
	if err := b.keepEvidence(s.ID, signed); err != nil {
		return sources.Stored{}, named(s.ID, refusal(err))
	}
	r.Verdict, r.Evidence = verdict, digest(signed)
	b.note(at, r)
	return b.stored(at, r), nil
}

// canHave finds out whether a host's name can be a directory's before anything is
// fetched: not all file systems have names with a colon in them.
func (b *Builder) canHave(h sources.Host) error {
	if !strings.Contains(string(h), ":") {
		return nil
	}
	probe := b.state("tmp", string(h))
	err := b.mkdir(probe, 0o755)
	if err == nil {
		return os.Remove(probe)
	}
	if errors.Is(err, fs.ErrExist) { // somebody else is trying
		return nil
	}
	return sources.WithHint(fmt.Errorf("making a directory for a host with a port: %w", err),
		"FAT, exFAT and Windows have no colons in names; make the mirror on another file system, or leave out what is from this host")
}

// turn waits until nobody else is at the package.
func (b *Builder) turn(id sources.PackageID) (done func()) {
	b.mu.Lock()
	m, ok := b.working[id]
	if !ok {
		m = new(sync.Mutex)
		b.working[id] = m
	}
	b.mu.Unlock()
	m.Lock()
	return m.Unlock
}

func (b *Builder) put(ctx context.Context, at spot, del sources.Delivery) (record, error) {
	work, err := os.MkdirTemp(b.state("tmp"), "")
	if err != nil {
		return record{}, err
	}
	defer os.RemoveAll(work) // what stays is removed another time
	made := filepath.Join(work, "new")
	parcel, contents, err := b.receive(ctx, at.id, del, work, made)
	if err != nil {
		return record{}, err
	}
	verdict, err := del.Judge(contents)
	if err != nil {
		return record{}, err
	}
	if err := b.keepEvidence(at.id, parcel.Signed); err != nil {
		return record{}, err
	}
	if err := b.show(ctx, at, made); err != nil {
		return record{}, err
	}
	return record{
		Mark: mark(at), H1: contents.H1, ZipH1: contents.ZipH1, ZH: parcel.ZH,
		Verdict: verdict, Origin: parcel.Origin, Evidence: digest(parcel.Signed), Since: b.opts.Now().UTC(),
	}, nil
}

// receive fetches a package and makes of it, at the path made, what the mirror
// shall have.
func (b *Builder) receive(ctx context.Context, id sources.PackageID, del sources.Delivery, work, made string) (sources.Parcel, sources.Contents, error) {
	stage := staging.New(work, b.state("partial", filepath.FromSlash(id.Path())))
	cut := true
	defer func() { stage.End(cut) }()
	parcel, err := del.Fetch(ctx, stage)
	if err != nil {
		return parcel, sources.Contents{}, err
	}
	cut = false
	contents, err := b.make(ctx, id, parcel, stage, made)
	return parcel, contents, err
}

func (b *Builder) make(ctx context.Context, id sources.PackageID, parcel sources.Parcel, stage *staging.Stage, made string) (sources.Contents, error) {
	switch {
	case parcel.Dir != "" && b.opts.Unpacked:
		return b.copy(ctx, id, parcel.Dir, made)
	case parcel.Dir != "":
		err := fmt.Errorf("%s is unpacked, and its archive is not to be had", parcel.Dir)
		return sources.Contents{}, sources.WithHint(err, "take it from where it is packed, or make the mirror with --unpacked")
	}
	from, err := parcel.Archive, error(nil)
	if from == nil {
		from, err = stage.File()
	}
	if err != nil {
		return sources.Contents{}, err
	}
	if b.opts.Unpacked {
		return b.unpack(ctx, id, from, made)
	}
	info, err := from.Stat()
	if err != nil {
		return sources.Contents{}, err
	}
	contents, err := archive.Sum(ctx, from, info.Size(), archive.Limits{})
	if err != nil {
		return contents, unpacking(err)
	}
	if _, err := archive.ExecutableIn(contents, id.Provider.Type); err != nil {
		return contents, err
	}
	if parcel.Archive == nil {
		return contents, stage.Move(made)
	}
	return contents, writeFile(made, io.NewSectionReader(from, 0, info.Size()))
}

func (b *Builder) copy(ctx context.Context, id sources.PackageID, from, made string) (sources.Contents, error) {
	if err := os.Mkdir(made, 0o755); err != nil {
		return sources.Contents{}, err
	}
	contents, err := archive.Copy(ctx, from, made, archive.Limits{})
	if err != nil {
		return contents, err
	}
	_, err = archive.Executable(made, id.Provider.Type)
	return contents, err
}

func (b *Builder) unpack(ctx context.Context, id sources.PackageID, from *os.File, made string) (sources.Contents, error) {
	info, err := from.Stat()
	if err != nil {
		return sources.Contents{}, err
	}
	if err := os.Mkdir(made, 0o755); err != nil {
		return sources.Contents{}, err
	}
	contents, err := archive.Unpack(ctx, from, info.Size(), made, archive.Limits{})
	if err != nil {
		return contents, unpacking(err)
	}
	_, err = archive.Executable(made, id.Provider.Type)
	return contents, err
}

func unpacking(err error) error {
	return sources.WithHint(fmt.Errorf("unpacking: %w", err), "the archive is not as it should be; take it from elsewhere, or tell whoever publishes it")
}

// writeFile makes a file at path, and waits until it is on the medium.
func writeFile(path string, from io.Reader) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Sync(), out.Close())
}

// show gives what was made its place. Whatever the index says of it goes first.
func (b *Builder) show(ctx context.Context, at spot, made string) error {
	if at.unpacked {
		if err := staging.SyncTree(ctx, made); err != nil {
			return err
		}
	}
	b.mu.Lock()
	err := b.change()
	if err == nil && !at.unpacked {
		err = b.unindex(at.id)
	}
	b.mu.Unlock()
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(at.path), 0o755)); err != nil {
		return err
	}
	b.forget(at)
	if info, err := os.Lstat(at.path); err == nil && info.IsDir() { // whose place no rename takes
		if err := os.Rename(at.path, made+".old"); err != nil {
			return err
		}
	}
	return os.Rename(made, at.path)
}

// keepEvidence keeps what vouches for a version, one writer at a time, and all of
// it before any package that it vouches for.
func (b *Builder) keepEvidence(id sources.PackageID, signed *sources.Signed) error {
	if signed == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.change(); err != nil {
		return err
	}
	return sources.WriteEvidence(b.evidence(id.Provider, id.Version), signed)
}

// named makes err name the package, unless it does so already.
func named(id sources.PackageID, err error) error {
	var already *sources.PackageError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &sources.PackageError{ID: id, Err: err}
}

// refusal adds to an error of the medium what can be done about it.
func refusal(err error) error {
	switch {
	case anyOf(err, noSpace):
		return sources.WithHint(err, "free some space on the mirror's medium, or sync less: what is there already stays")
	case anyOf(err, tooLarge):
		return sources.WithHint(err, "the file system of the mirror has no files so large, as FAT has none of 4 GiB; format the medium as exFAT")
	}
	return err
}

func anyOf(err error, some []error) bool {
	return slices.ContainsFunc(some, func(e error) bool { return errors.Is(err, e) })
}
