// Package archive unpacks provider packages, copies them, and hashes their files
// as it reads them. Files that it has written are not read again.
//
// It refuses archives that no publisher makes on purpose, and returns the hashes
// of the others. The caller compares the hashes, and knows where the archive comes from.
//
// It fills the directory that the caller passes. After an error, the contents are neither
// complete nor trusted, and the caller removes them. It does not sync files to disk.
//
// # What is refused
//
// Names that are absolute, not UTF-8, have a drive letter, a ".." element
// (between slashes or backslashes) or control characters; two names of which
// one is the other, or would be on a file system that ignores case; a file
// where another name needs a directory; links, devices and whatever else is neither file nor
// directory; entries that are encrypted, compressed other than by deflate, or
// share bytes with one another; contents other than the size and checksum
// stated; more files or bytes than [Limits] allow; archives without a file.
//
// # Modes
//
// Directories get what the umask leaves of 0755. Files get 0755 if their mode
// lets anyone execute them, or if they are a provider by their name, as archives
// made on Windows know no modes; else 0644. Set-id and sticky bits are dropped.
//
// # Hashes
//
// The h1: of a directory covers its files, that of an archive its entries,
// directories included. So there may be two of them for one package.
package archive
