package legacy

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// A Store stores packages, see [sources.Tx].
type Store interface {
	Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error)
}

// Put stores the package and replaces the one in the store.
func (c Candidate) Put(ctx context.Context, to Store) (s sources.Stored, err error) {
	defer func() { err = sources.InPackage(c.ID, err) }()
	_, tx, err := to.Begin(ctx, c.ID, sources.ToStore)
	if err != nil {
		return s, err
	}
	defer tx.Close()
	stage, err := tx.Stage(nil)
	if err != nil {
		return s, err
	}
	from, by, err := c.fetch(ctx, stage)
	if from.Archive != nil {
		defer from.Archive.Close()
	}
	if err != nil {
		return s, err
	}
	_, err = tx.Unpack(ctx, from)
	if err == nil && from.Archive != nil {
		_, err = from.Archive.Stat()
	}
	if err != nil {
		return s, err
	}
	return tx.Commit(ctx, by)
}

// fetch opens the candidate's archive, or packs the candidate into the stage.
func (c Candidate) fetch(
	ctx context.Context, stage sources.Stage,
) (from sources.Payload, by sources.Provenance, err error) {
	by = sources.Provenance{Filename: c.ID.Filename(), Origin: c.Path, Proof: c.Proof}
	if c.Kind != Archive {
		from.Hidden = disk.Hidden(c.Path)
		by.ZH, err = c.pack(ctx, stage)
		return from, by, err
	}
	h, err := archive.Open(ctx, c.Path, nil)
	if err != nil {
		return from, by, err
	}
	from.Archive, from.Hidden = h, h.Hidden()
	by.ZH, by.Signed = sources.ZipHash(h.Sum), c.Signed
	if c.zh != "" && by.ZH != c.zh {
		err = fmt.Errorf("%s %w: it was %s and is now %s", c.Path, disk.ErrChanged, c.zh, by.ZH)
	}
	return from, by, err
}

// H1 returns the hash of the contents of the package, as they would be stored.
func (c Candidate) H1(ctx context.Context) (sources.Hash, error) {
	if c.Kind == Archive {
		contents, _, err := archive.Read(ctx, c.Path)
		return contents.H1, sources.InPackage(c.ID, err)
	}
	sum, _, err := disk.HashFile(ctx, c.Path, archive.MaxSize)
	return archive.H1([]sources.File{{Path: filepath.Base(c.Path), SHA256: sum}}), sources.InPackage(c.ID, err)
}

// packedAt is the modification time of all packed files: the earliest that zip
// archives support.
var packedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// pack writes an archive that depends only on the name and the contents of the executable.
func (c Candidate) pack(ctx context.Context, to io.Writer) (sources.Hash, error) {
	in, _, err := disk.OpenFile(c.Path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	w := zip.NewWriter(io.MultiWriter(to, sum))
	h := &zip.FileHeader{Name: filepath.Base(c.Path), Method: zip.Deflate, Modified: packedAt}
	h.SetMode(0o755)
	out, err := w.CreateHeader(h)
	if err != nil {
		return "", err
	}
	n, err := io.Copy(out, io.LimitReader(disk.Reader(ctx, in), archive.MaxSize+1))
	if err == nil && n > archive.MaxSize {
		err = fmt.Errorf("%s: %w of the size of a package", c.Path, archive.ErrLimit)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	return sources.ZipHash([32]byte(sum.Sum(nil))), nil
}
