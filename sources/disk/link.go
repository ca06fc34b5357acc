package disk

import "io/fs"

// IsLink reports whether mode is the mode of a symbolic link or, on Windows, of a junction.
func IsLink(mode fs.FileMode) bool { return mode&(fs.ModeSymlink|fs.ModeIrregular) != 0 }

// Symlink creates name, which has one element, as a symbolic link to target.
// The last element of an installed package's path is the only link that Larder creates.
func (d *Dir) Symlink(target, name string) error { return d.named(d.root.Symlink(target, name)) }
