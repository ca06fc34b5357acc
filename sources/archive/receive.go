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
func Receive(ctx context.Context, files sources.Files, to Dest) (sources.Contents, error) {
	var received []sources.File
	left, names := to.most(), Names{} // left is how many bytes may still be received
	for in, err := range files {
		if err != nil {
			return sources.Contents{}, err
		}
		f, err := to.receive(ctx, in, names, left)
		if left -= f.Size; err == nil && left < 0 {
			err = fmt.Errorf("%w of %d bytes", ErrLimit, to.most())
		}
		if err != nil {
			return sources.Contents{}, &EntryError{in.Path, err}
		}
		received = append(received, f)
	}
	if len(received) == 0 {
		return sources.Contents{}, errors.New("no files in the package")
	}
	return contentsOf(received), nil
}

// receive writes a file, up to the first byte that is too much, beside those with the names.
func (to Dest) receive(ctx context.Context, in sources.Incoming, names Names, left int64) (f sources.File, err error) {
	clean, err := checkName(in.Path)
	if err == nil && clean != in.Path {
		err = fmt.Errorf("name is not in its shortest form, %.255q", clean)
	}
	if err == nil {
		err = names.add(clean, false)
	}
	if most := cmp.Or(to.Files, maxFiles); err == nil && len(names) > most {
		err = fmt.Errorf("%w of %d files", ErrLimit, most)
	}
	if err != nil {
		return f, err
	}
	mode := fs.FileMode(0o644)
	if in.Executable {
		mode = 0o755
	}
	return to.put(clean, fileMode(clean, mode), func(out io.Writer) (digest, error) {
		return transfer(ctx, plain{io.LimitReader(in.Data, left+1)}, out)
	})
}
