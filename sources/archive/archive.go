// Package archive unpacks and copies provider packages, and hashes their files
// while reading them. It does not read files again that it has written.
//
// It rejects archives that no publisher would create on purpose, and returns
// the hashes of all others. The caller verifies the hashes.
//
// It fills the directory that it is given. After an error, the contents are
// incomplete and unverified, and the caller must remove them. It does not sync
// files.
//
// # Rejected archives
//
//   - Names that are absolute, are not UTF-8, or have a drive letter, a ".."
//     element (between slashes or backslashes) or control characters.
//   - Two names that are equal, or differ only in case.
//   - A file instead of another name's directory.
//   - Links, devices and everything else that is neither a file nor a
//     directory.
//   - Entries that are encrypted, are compressed by a method other than
//     deflate, or share bytes.
//   - Contents that differ from the stated size or checksum.
//   - More files or bytes than a [Dest] permits.
//   - Archives without a file.
//
// # Modes
//
// Directories get the mode 0755, reduced by the umask. A file gets 0755 if its
// mode has an execute bit, or if its name is that of a provider executable,
// because archives created on Windows contain no modes. All other files get
// 0644. Set-id and sticky bits are dropped, and so are the bits of users who
// cannot read the original.
//
// # Hashes
//
// The h1: hash of a directory covers its files. The h1: hash of an archive
// covers its entries, including directories. A package may therefore have two
// h1: hashes.
package archive
