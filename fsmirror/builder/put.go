package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/staging"
)

// Filename is the name of a package's archive in a mirror.
func Filename(id sources.PackageID) string {
	return fmt.Sprintf("terraform-provider-%s_%s_%s.zip", id.Provider.Type, id.Version, id.Platform)
}

// place is where a package lies.
func (b *Builder) place(id sources.PackageID, unpacked bool) string {
	if unpacked {
		return filepath.Join(b.dir, filepath.FromSlash(id.Path()))
	}
	return filepath.Join(b.home(id.Provider), Filename(id))
}

// Get says what the mirror has for id, in the layout that new packages get. It
// reads the package only if no record tells. The error matches
// [sources.ErrNotFound] if there is none that could be used.
func (b *Builder) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	r, err := b.look(ctx, id, b.opts.Unpacked)
	if err != nil {
		return sources.Stored{}, named(id, err)
	}
	return b.stored(id, b.place(id, b.opts.Unpacked), r), nil
}

// Recall says what a package hashed to when it was last looked at.
func (b *Builder) Recall(id sources.PackageID) (sources.Stored, error) {
	r, ok := b.recall(id, b.opts.Unpacked)
	if !ok || r.Verdict == sources.Unverified {
		return sources.Stored{}, named(id, sources.ErrNotFound)
	}
	return b.stored(id, "", r), nil
}

// look finds out what a package hashes to.
func (b *Builder) look(ctx context.Context, id sources.PackageID, unpacked bool) (record, error) {
	path := b.place(id, unpacked)
	now := mark(path)
	if now == "" {
		return record{}, sources.ErrNotFound
	}
	r, ok := b.recall(id, unpacked)
	if ok && r.Mark == now && !b.opts.Paranoid {
		return r, nil
	}
	fresh, err := hash(ctx, path)
	if err != nil {
		return record{}, err
	}
	if ok && r.H1 == fresh.H1 && r.ZH == fresh.ZH {
		fresh = r
	} else {
		fresh.Since = b.opts.Now().UTC()
	}
	fresh.Mark = now
	b.note(id, unpacked, fresh)
	return fresh, nil
}

// hash reads a package.
func hash(ctx context.Context, path string) (record, error) {
	info, err := os.Stat(path)
	if err != nil {
		return record{}, err
	}
	if info.IsDir() {
		contents, err := archive.Hash(ctx, path)
		return record{H1: contents.H1}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	contents, err := archive.Sum(ctx, f, info.Size(), archive.Limits{})
	if err != nil {
		return record{}, fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return record{}, err
	}
	return record{H1: contents.H1, ZipH1: contents.ZipH1, ZH: sources.ZipHash([32]byte(sum.Sum(nil)))}, nil
}

func (b *Builder) stored(id sources.PackageID, path string, r record) sources.Stored {
	s := sources.Stored{
		ID: id, Dir: path, H1: r.H1, ZipH1: r.ZipH1, ZH: r.ZH, Filename: Filename(id),
		Verdict: r.Verdict, Origin: r.Origin, Since: r.Since,
	}
	if signed, err := sources.ReadEvidence(b.evidence(id.Provider, id.Version)); err == nil && r.Evidence == digest(signed) {
		s.Signed = signed
	}
	return s
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
	defer b.turn(id)()
	s, err := b.Get(ctx, id)
	if err == nil && del.Accept(s) {
		return s, nil
	}
	r, err := b.put(ctx, id, del)
	if err != nil {
		return sources.Stored{}, named(id, refusal(err))
	}
	b.note(id, b.opts.Unpacked, r)
	return b.stored(id, b.place(id, b.opts.Unpacked), r), nil
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

func (b *Builder) put(ctx context.Context, id sources.PackageID, del sources.Delivery) (record, error) {
	work, err := os.MkdirTemp(b.state("tmp"), "")
	if err != nil {
		return record{}, err
	}
	defer os.RemoveAll(work) // what stays is removed another time
	made := filepath.Join(work, "new")
	parcel, contents, err := b.receive(ctx, id, del, work, made)
	if err != nil {
		return record{}, err
	}
	verdict, err := del.Judge(contents)
	if err != nil {
		return record{}, err
	}
	if err := b.keepEvidence(id, parcel.Signed); err != nil {
		return record{}, err
	}
	if err := b.show(ctx, id, made); err != nil {
		return record{}, err
	}
	return record{
		Mark: mark(b.place(id, b.opts.Unpacked)), H1: contents.H1, ZipH1: contents.ZipH1, ZH: parcel.ZH,
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
	return contents, copyFile(made, io.NewSectionReader(from, 0, info.Size()))
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

// copyFile makes a file at path, and waits until it is on the medium.
func copyFile(path string, from io.Reader) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Sync(), out.Close())
}

// show gives what was made its place. If that is taken, by other bytes than the
// delivery accepts, the index forgets them first.
func (b *Builder) show(ctx context.Context, id sources.PackageID, made string) error {
	if b.opts.Unpacked {
		if err := syncTree(ctx, made); err != nil {
			return err
		}
	}
	b.mu.Lock()
	err := b.change()
	b.mu.Unlock()
	place := b.place(id, b.opts.Unpacked)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(place), 0o755)); err != nil {
		return err
	}
	if _, err := os.Lstat(place); err == nil {
		if err := b.unindex(id); err != nil {
			return err
		}
		b.forget(id, b.opts.Unpacked)
		if err := os.Rename(place, made+".old"); err != nil {
			return err
		}
	}
	return os.Rename(made, place)
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
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return sources.WithHint(err, "free some space on the mirror's medium, or sync less: what is there already stays")
	case errors.Is(err, syscall.EFBIG):
		return sources.WithHint(err, "the file system of the mirror has no files so large, as FAT has none of 4 GiB; format the medium as exFAT")
	}
	return err
}
