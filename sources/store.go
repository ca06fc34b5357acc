package sources

import (
	"context"
	"io"
	"iter"
	"os"
)

// A Purpose is what a package is acquired for.
type Purpose int

// The purposes.
const (
	ToStore Purpose = iota // the store keeps the package
	ToHash                 // the store records the hashes of the package, and doesn't keep it
)

// Held is what a store has of a package when a [Tx] begins.
type Held struct {
	Package Stored // in place; without H1 if there is none that could be used
	Known   Stored // as it was verified here, whether or not it is still in place; without H1 if that isn't recorded
}

// A Tx is the transaction that puts one package into a store. While it lasts, no other
// process stores the package. Its methods are called in the order below, Unpack and
// Commit once at most.
type Tx interface {
	// Stage prepares for a package that takes the place of the one held, and returns where
	// its archive is downloaded to. It comes before Unpack, whatever is unpacked.
	Stage() (Stage, error)

	// Unpack hashes a package and keeps it in a staging directory. It has verified
	// nothing.
	Unpack(ctx context.Context, from Payload) (Contents, error)

	// Commit makes the unpacked package appear in its place, whole, instead of the one
	// that is there, and records where it came from. Without a call of Unpack it records
	// better evidence for the package held.
	Commit(ctx context.Context, by Provenance) (Stored, error)

	// Close ends the transaction. Without a call of Commit nothing has changed, but an
	// interrupted download may be kept for the next transaction.
	Close()
}

// A Payload is where the contents of a package are. If it is zero, they are in the
// archive that the transaction's stage holds.
type Payload struct {
	Archive *os.File // on this machine, closed by the caller
	Dir     string   // of an unpacked package
	Files   Files    // of an unpacked package, still to arrive
}

// Local reports whether the package was on this machine, or was sent unpacked, rather
// than downloaded as an archive.
func (p Payload) Local() bool { return p.Archive != nil || p.Dir != "" || p.Files != nil }

// A Provenance is where a package came from and how it was verified.
type Provenance struct {
	ZH       Hash   // of the archive; empty for a directory
	Filename string // of the archive; empty for a directory
	Origin   string // a URL or a path
	Verdict  Verdict
	Signed   *Signed // evidence to keep; nil if there is none
	Imported bool    // ZH, Filename and Signed are claims that nothing proves
}

// A Stage takes the bytes of an archive as they arrive. It may keep them, if the
// transaction ends early, for the next transaction of the same archive.
type Stage interface {
	io.Writer

	// Begin throws away what the stage holds. The note is about what is written from now
	// on: the next transaction needs it to resume. Without one nothing is kept.
	Begin(note string) error

	// Resume makes the stage hold what is left of an earlier download of the archive
	// with this hash: the bytes, to be read at once, and the note about them. Without a
	// note there are none.
	Resume(want Hash) (held io.Reader, note string, err error)

	// Spool creates a temporary file beside the stage for what arrives ahead of its
	// turn. The error matches [errors.ErrUnsupported] if the stage has none.
	Spool() (Spool, error)
}

// A Spool is a temporary file. Closing it removes it.
type Spool interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// Files are those of an unpacked package as they arrive, one after the other. They
// arrive only once, and an error is the last of them.
type Files = iter.Seq2[Incoming, error]

// Incoming is a file that arrives. Nothing about it has been verified.
type Incoming struct {
	Path       string // relative, with forward slashes
	Executable bool
	Data       io.Reader // read to its end, or not, before the next file is asked for
}

// A Workdir is the directory of installed packages of one root module. Its methods are
// safe for concurrent use.
type Workdir interface {
	// Get describes what is installed. The error matches [ErrNotFound] if there is no
	// package.
	Get(ctx context.Context, id PackageID) (Stored, error)

	// Link makes a stored package appear in its place, and returns how. The error matches
	// [ErrSwapped] if the package in the store is no longer the one that s describes.
	Link(ctx context.Context, s Stored) (LinkMode, error)

	// Register notes that the root module uses the packages.
	Register(packages []PackageID)

	// Close removes what is left of temporary files.
	Close() error
}
