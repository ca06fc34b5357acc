package disk

// A FileID identifies a file on this machine. It is zero if the file system doesn't identify files.
type FileID struct{ Inode, Volume uint64 }

// A Usage is the disk usage of a file.
type Usage struct {
	File  FileID
	Bytes int64
	Links uint64 // number of names
}
