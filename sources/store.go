package sources

import (
	"context"
	"io"
	"iter"
	"os"
)

// A Delivery is how a package comes to a store. The store calls its functions
// while it holds the package's lock, each at most once, in this order.
type Delivery struct {
	// Accept says whether an entry that is there already will do. One that
	// will not is set aside and replaced, but only by a delivery that succeeds.
	Accept func(Stored) bool

	// Regard says how well the source vouches for an entry that was accepted, and
	// by which evidence, if that is better than what is known of it or can be
	// proved; else the evidence is nil. It is for stores that have archives, and may be nil.
	Regard func(Stored) (*Signed, Verdict)

	// Fetch brings the package, its archive either written to stage or opened
	// from where it lies, or says which directory holds it unpacked. It returns
	// an error unless all that can be verified by then has been.
	Fetch func(ctx context.Context, stage Stage) (Parcel, error)

	// Judge is told the contents before anything becomes visible. It returns an
	// error to refuse them, and the verdict to record otherwise.
	Judge func(Contents) (Verdict, error)
}

// A Stage takes the bytes of an archive as they arrive.
type Stage interface {
	io.Writer

	// Reset throws away what has been written.
	Reset() error
}

// A Keeper is a Stage that keeps what it holds when a delivery is cut short, for
// the next delivery of the same archive.
type Keeper interface {
	Stage

	// Resume makes the stage hold what is left of an earlier delivery of the
	// archive with this hash: the bytes, to be read at once, and the note that
	// was made of them. Without a note there are none.
	Resume(want Hash) (held io.Reader, note string, err error)

	// Note replaces the note of what is being written. It is forgotten when the
	// stage is reset.
	Note(text string)

	// Spool makes room beside the stage for what arrives ahead of its turn.
	Spool() (Spool, error)
}

// A Spool is room for a while: what is in it is gone once it is closed.
type Spool interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// A Parcel is a package that has been fetched. If Archive, Dir and Files are all
// zero, the archive is what the stage holds.
type Parcel struct {
	Archive  *os.File // closed by whoever opened it, once it is stored
	Dir      string   // of an unpacked package, to be copied
	Files    Files    // of an unpacked package, still to arrive
	ZH       Hash     // of the archive; empty for a directory
	Filename string   // of the archive; empty for a directory
	Origin   string   // whence it came: a URL or a path
	Signed   *Signed  // evidence to keep; nil if there is none
	Imported bool     // what is said of the archive is only claimed
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

// A LinkMode is how a package in a store is made to appear somewhere else.
type LinkMode string

// The link modes. LinkAuto tries reflink, hardlink, symlink and copy in turn.
const (
	LinkAuto    LinkMode = "auto"
	LinkReflink LinkMode = "reflink"
	LinkHard    LinkMode = "hardlink"
	LinkSymlink LinkMode = "symlink"
	LinkCopy    LinkMode = "copy"
)

// LinkModes are all link modes, in the order in which help lists them.
var LinkModes = []LinkMode{LinkAuto, LinkHard, LinkSymlink, LinkReflink, LinkCopy}
