package sources

import (
	"context"
	"io"
	"io/fs"
	"iter"
)

// A Purpose is what a package is acquired for.
type Purpose int

// The purposes.
const (
	ToStore Purpose = iota // the store keeps the package
	ToHash                 // the store records the package's hashes, and does not keep the package
)

// Held is the state of a package in a store when a [Tx] begins.
type Held struct {
	Package Stored // the package in place; without hashes if there is none that can be used
	Known   Stored // as it was last verified here, in place or not; without hashes if that is not recorded
}

// Needed returns the state of the package that a purpose needs.
func (h Held) Needed(p Purpose) Stored {
	if p == ToHash {
		return h.Known
	}
	return h.Package
}

// A Tx is the transaction that puts one package into a store. Until it is
// closed, no other process stores the package. Its methods are called in the
// order below, Unpack and Commit at most once.
type Tx interface {
	// Stage prepares to replace the package held, and returns the destination
	// for its archive. It must be called before Unpack, even if no archive is
	// downloaded. The observer may be nil.
	Stage(Observer) (Stage, error)

	// Unpack hashes a package and unpacks it into a staging directory. It
	// verifies nothing.
	Unpack(ctx context.Context, from Payload) (Contents, error)

	// Commit atomically replaces the package held with the unpacked one, and
	// records where it came from. If Unpack was not called, Commit records
	// better evidence for the package held. It returns the zero Stored if the
	// store holds no package from that archive.
	Commit(ctx context.Context, by Provenance) (Stored, error)

	// Close ends the transaction. If Commit was not called, the stored package
	// is unchanged, but an interrupted download may be kept for the next
	// transaction.
	Close()
}

// A Judge computes verdicts from evidence, by the trust settings of the run. Stores
// record proofs, and never verdicts. Package trust contains the implementation.
type Judge interface {
	// Prove returns what evidence for a version of p proves about an archive, whatever
	// the settings. Its error is the reason why it proves nothing.
	Prove(ctx context.Context, p Provider, s *Signed, zh Hash) (Proof, error)

	// Report returns what a proof about a package of p is worth.
	Report(p Provider, proof Proof) Report

	// Merge returns the evidence to keep for a version of p, given the evidence kept
	// so far and new evidence. It returns evidence even with an error, and the
	// caller only warns.
	Merge(ctx context.Context, p Provider, kept, new *Signed) (*Signed, error)

	// CompareKeys returns a warning if another version of p is signed with other keys.
	CompareKeys(ctx context.Context, p Provider, other Version, was, now *Signed) error
}

// A Payload is where the contents of a package are. The zero Payload means the
// archive in the transaction's stage.
type Payload struct {
	Archive  Archive   // on this machine, closed by the caller
	Arriving io.Reader // an archive, still being received; becomes that of the stage
	Dir      string    // of an unpacked package

	// Covered reports that signed checksums cover the archive, and that nothing requires the h1: hash of its contents. A
	// store of archives then only lists its files.
	Covered bool

	// Hidden are the mode bits that files made from an archive must not have, because not all users can read the
	// original. It is 0 for downloads, which are public.
	Hidden fs.FileMode
}

// An Archive is an open archive with a known hash, such as a [disk.Hashed]. If the file
// has changed since it was hashed, its methods return an error instead of other bytes.
type Archive interface {
	io.ReaderAt
	io.Closer
	Name() string // the path at which it was opened
	Stat() (fs.FileInfo, error)
}

// Local reports whether the package was on this machine rather than received as an archive.
func (p Payload) Local() bool { return p.Archive != nil || p.Dir != "" }

// A Provenance is where a package came from and how it was verified.
type Provenance struct {
	ZH       Hash    // of the archive; empty for a directory
	Filename string  // of the archive; empty for a directory
	Origin   string  // a URL or a path
	Proof    Proof   // what was proved about the package
	Signed   *Signed // evidence to keep; nil if there is none
	Bundled  bool    // it came in a bundle, whose author must not decide what this user knows of other packages
}

// An Observer is called when bytes have been written to a stage, when the size of the archive
// becomes known, also of one on this machine, and before the download begins again. Its error ends the download.
type Observer func(Arriving) error

// Arriving is an archive in a stage.
type Arriving struct {
	Path string // of the file, which begins with the first Done bytes of the archive
	Done int64  // 0 before the download begins again
	Size int64  // of the archive in bytes; 0 if unknown
}

// A Stage receives the bytes of an archive. If the transaction ends early, the
// stage may keep them for the next transaction with the same archive.
type Stage interface {
	io.Writer

	// Expect states the size of the archive in bytes, and reserves space for it. It returns
	// an error if there is none.
	Expect(size int64) error

	// Begin discards the stage's bytes. The note describes the bytes written
	// from now on: the next transaction needs it to resume. If the note is
	// empty, the bytes are not kept.
	Begin(note string) error

	// Resume loads the rest of an earlier download of the archive with this
	// hash. It returns the bytes, which must be read at once, and their note.
	// An empty note means that there are no bytes.
	Resume(want Hash) (held io.Reader, note string, err error)

	// Recent opens the archive with this hash if this or another store downloaded
	// it recently. The error matches [fs.ErrNotExist] if there is none.
	Recent(ctx context.Context, zh Hash) (Archive, error)

	// Spool creates a temporary file of up to size bytes beside the stage, for
	// bytes that arrive out of order. It fails if the disk has little space left.
	// The error matches [errors.ErrUnsupported] if the stage has no spools.
	Spool(size int64) (Spool, error)
}

// A Spool is a temporary file. Closing it removes it.
type Spool interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// Files are the files of an unpacked package as they are received, one after
// the other. The sequence can be read only once, and ends after an error.
type Files = iter.Seq2[Incoming, error]

// Incoming is a file being received. Nothing about it has been verified.
type Incoming struct {
	Path       string // relative, with forward slashes
	Executable bool
	Data       io.Reader // valid until the next file is requested; need not be read to its end
}

// A Workdir is the directory of installed packages in one root module. Its
// methods are safe for concurrent use.
type Workdir interface {
	// Get describes the installed package. The error matches [ErrNotFound] if
	// there is none.
	Get(ctx context.Context, id PackageID) (Stored, error)

	// PackagesOf returns the IDs of a provider's installed packages for all platforms,
	// sorted. Get may fail for some of them.
	PackagesOf(ctx context.Context, p Provider) ([]PackageID, error)

	// Link puts a stored package in its place, and returns the link mode. The
	// error matches [ErrSwapped] if the package in the store is no longer the
	// one that s describes.
	Link(ctx context.Context, s Stored) (LinkMode, error)

	// Unwritable returns why Link would not be able to put a package in its place,
	// as far as that can be found out without writing.
	Unwritable(s Stored) error

	// Register records that the root module uses the packages.
	Register(packages []PackageID)

	// Close records what was linked and hashed, and removes temporary files.
	Close() error
}
