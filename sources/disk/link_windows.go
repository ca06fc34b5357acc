package disk

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// symlink creates a junction if the user may not create symbolic links, and target is an absolute
// directory on this machine.
func (d *Dir) symlink(target, name string) error {
	err := d.root.Symlink(target, name)
	if err == nil {
		return nil
	}
	info, statErr := os.Stat(target)
	if statErr != nil || !info.IsDir() || !filepath.IsAbs(target) || strings.HasPrefix(filepath.VolumeName(target), `\\`) {
		return err
	}
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	if junctionErr := d.junction(target, name); junctionErr != nil {
		return errors.Join(err, junctionErr, d.unlink(name))
	}
	return nil
}

// junction makes the empty directory called name a junction to target.
func (d *Dir) junction(target, name string) error {
	h, err := d.openToChange(name, windows.FILE_WRITE_ATTRIBUTES|windows.FILE_WRITE_DATA)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	data, err := junctionData(target)
	if err != nil {
		return err
	}
	var n uint32
	if err := windows.DeviceIoControl(h, windows.FSCTL_SET_REPARSE_POINT, &data[0], uint32(len(data)), nil, 0, &n, nil); err != nil {
		return &fs.PathError{Op: "junction", Path: d.Path(name), Err: err}
	}
	return nil
}

// junctionData returns the contents of a reparse point that leads to an absolute path, in the format of
// REPARSE_DATA_BUFFER in Microsoft's ntifs.h: a header, the places of two names, and the names. The system
// follows the first one, and programs show the second one.
func junctionData(target string) ([]byte, error) {
	first, err := windows.UTF16FromString(`\??\` + filepath.Clean(target))
	if err != nil {
		return nil, err
	}
	second := first[len(`\??\`):]
	size := func(name []uint16) uint16 { return uint16(2 * len(name)) }
	const end, places = 2, 8 // bytes of the zero at the end of a name, and of the places
	data := []uint16{size(first) + size(second) + places, 0, 0, size(first) - end, size(first), size(second) - end}
	data = append(append(data, first...), second...)
	return binary.Append(binary.LittleEndian.AppendUint32(nil, windows.IO_REPARSE_TAG_MOUNT_POINT), binary.LittleEndian, data)
}

// Resolve returns path without links and junctions. It must exist.
func Resolve(path string) (string, error) {
	f, err := OpenAny(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	name := make([]uint16, windows.MAX_LONG_PATH)
	n, err := windows.GetFinalPathNameByHandle(windows.Handle(f.Fd()), &name[0], uint32(len(name)), 0)
	if err != nil || int(n) > len(name) { // Wine knows no long paths here, and some drives of other makers have no such function
		return filepath.EvalSymlinks(path)
	}
	resolved := strings.TrimPrefix(windows.UTF16ToString(name[:n]), `\\?\`)
	if server, ok := strings.CutPrefix(resolved, `UNC\`); ok {
		resolved = `\\` + server
	}
	return resolved, nil
}
