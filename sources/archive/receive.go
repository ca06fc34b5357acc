package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/larder-cli/larder/sources"
)

// Receive writes an unpacked package, which arrives file by file, to a
// directory. If to is zero, Receive only hashes the package. Errors are those
// of [Unpack].
func Receive(ctx context.Context, files sources.Files, to Dest, lim Limits) (sources.Contents, error) {
	r := receiver{to: to, lim: lim.withDefaults(), names: nameSet{}}
	r.left = r.lim.Size
	for in, err := range files {
		if err != nil {
			return sources.Contents{}, err
		}
		if err := r.receive(ctx, in); err != nil {
			return sources.Contents{}, &EntryError{in.Path, err}
		}
	}
	if len(r.files) == 0 {
		return sources.Contents{}, errors.New("no files in the package")
	}
	return contentsOf(r.files), nil
}

// A receiver is the state of receiving a package.
type receiver struct {
	to    Dest
	lim   Limits
	left  int64 // bytes that may still be received
	names nameSet
	files []sources.File
}

func (r *receiver) receive(ctx context.Context, in sources.Incoming) error {
	clean, err := checkName(in.Path)
	if err == nil && clean != in.Path {
		err = fmt.Errorf("name is not clean, as %.255q is", clean)
	}
	if err == nil {
		err = r.names.add(clean, false)
	}
	if err == nil {
		err = r.lim.checkCount(len(r.names))
	}
	if err != nil {
		return err
	}
	d, err := r.transfer(ctx, in)
	if err != nil {
		return err
	}
	if r.left -= d.size; r.left < 0 {
		return fmt.Errorf("%w of %d bytes", ErrLimit, r.lim.Size)
	}
	r.files = append(r.files, sources.File{Path: clean, Size: d.size, SHA256: d.sha256})
	return nil
}

func (r *receiver) transfer(ctx context.Context, in sources.Incoming) (digest, error) {
	src := plain{io.LimitReader(in.Data, r.left+1)}
	if r.to.Dir == nil {
		return transfer(ctx, src, nil)
	}
	mode := fs.FileMode(0o644)
	if in.Executable {
		mode = 0o755
	}
	out, err := r.to.create(in.Path, fileMode(in.Path, mode))
	if err != nil {
		return digest{}, err
	}
	d, err := transfer(ctx, src, out)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return d, err
}
