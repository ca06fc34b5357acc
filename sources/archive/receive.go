package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/larder-cli/larder/sources"
)

// Receive writes an unpacked package, which arrives file by file, to a
// directory. Errors are those of [Unpack].
func Receive(ctx context.Context, files sources.Files, to Dest, lim Limits) (sources.Contents, error) {
	r := receiver{to: to, lim: lim.withDefaults(), names: Names{}}
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
	names Names
	files []sources.File
}

func (r *receiver) receive(ctx context.Context, in sources.Incoming) error {
	clean, err := checkName(in.Path)
	if err == nil && clean != in.Path {
		err = fmt.Errorf("name is not in its shortest form, %.255q", clean)
	}
	if err == nil {
		err = r.names.add(clean, false)
	}
	if most := cmp.Or(r.lim.Files, maxFiles); err == nil && len(r.names) > most {
		err = fmt.Errorf("%w of %d files", ErrLimit, most)
	}
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if in.Executable {
		mode = 0o755
	}
	f, err := r.to.put(clean, fileMode(clean, mode), func(out io.Writer) (digest, error) {
		return transfer(ctx, plain{io.LimitReader(in.Data, r.left+1)}, out)
	})
	if err != nil {
		return err
	}
	if r.left -= f.Size; r.left < 0 {
		return fmt.Errorf("%w of %d bytes", ErrLimit, r.lim.Size)
	}
	r.files = append(r.files, f)
	return nil
}
