package archive

import "bytes"

// compressions are the formats that people give to files without their names showing it.
var compressions = []struct{ magic, name, command string }{
	{"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
	{"\x1f\x8b", "gzip", "gzip -dc"},
	{"\xfd7zXZ\x00", "xz", "xz -dc"},
	{"BZh", "bzip2", "bzip2 -dc"},
	{"\x04\x22\x4d\x18", "lz4", "lz4 -dc"},
	{"PK\x03\x04", "zip", "unzip -p"},
}

// Compression returns the name of the compression of a file that begins with head, and the
// command that, followed by the file, writes its contents to standard output. Both are empty
// if the file is not compressed in a known way.
func Compression(head []byte) (name, command string) {
	for _, c := range compressions {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return c.name, c.command
		}
	}
	return "", ""
}
