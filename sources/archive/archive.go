// Package archive unpacks provider packages, copies them, and hashes what they
// consist of, reading every byte once.
//
// It is not a judge: it refuses what no honest package has, and tells the
// hashes of what it accepts, but which hashes are the right ones others know.
// Nor does it care where an archive comes from.
//
// It leaves on disk the directory it is given, filled. After an error, what is
// in there is neither complete nor to be trusted, and the caller removes it. It
// flushes nothing to the medium.
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
