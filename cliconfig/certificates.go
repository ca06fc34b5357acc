package cliconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources/disk"
)

// A namedFile is a file that a setting names.
type namedFile struct {
	Place
	setting string // empty if it is not set
	path    string // absolute; empty if it is not set, or not a path
	hint    string // what to do if the file can't be read
	content []byte // once it is read
}

// complain reports a problem with a file.
func (l *loader) complain(f namedFile, hint, format string, args ...any) {
	l.errorf(f.Place, hint, "%s %s: %s", f.setting, f.path, fmt.Sprintf(format, args...))
}

// file is a field for the path of a file.
func (l *loader) file(f *namedFile) field {
	return func(e syntax.Entry) {
		*f = namedFile{Place: e.Value.Place, setting: e.Key}
		l.parsed(func(path string) error {
			if path == "" {
				return fmt.Errorf("%s is empty", e.Key)
			}
			if !l.rooted(path) {
				f.hint = "relative paths start from the directory of this file"
			}
			path = l.ownPath(e.File, path)
			err := l.checkPath(e.Key, path)
			if err == nil {
				f.path = path
			}
			return err
		}, textKinds...)(e)
	}
}

// open reads the file, if it is set, and reports whether that succeeds.
func (l *loader) open(f *namedFile) bool {
	if f.path == "" {
		return false
	}
	var err error
	f.content, err = l.readFile(f.path)
	switch {
	case err != nil:
		l.complain(*f, f.hint, "%v", disk.Cause(err))
	case len(f.content) > syntax.MaxFileSize:
		l.complain(*f, "", "larger than %d bytes", syntax.MaxFileSize)
	default:
		return true
	}
	return false
}

// ownPath returns the absolute path that a setting in a file of Larder's own names. In it, ~ is the home directory, and
// relative paths start from the directory of the file.
func (m Machine) ownPath(file, typed string) string {
	path, _ := m.inHome(typed)
	return m.beside(file, path)
}

// inHome returns a path, with the home directory in place of a leading ~, and whether it has one.
func (m Machine) inHome(typed string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(typed, "~")
	if !ok || m.home() == "" || !m.rooted(rest) {
		return typed, false
	}
	return m.join(m.home(), rest[1:]), true
}

// beside returns an absolute path. Relative paths start from the directory of a file.
func (m Machine) beside(file, path string) string {
	return m.Abs(file[:strings.LastIndexAny(file, m.ForOS(`\/`, "/"))+1], path)
}

const certificateStart = "-----BEGIN CERTIFICATE-----"

// certificates returns the certificates in a PEM file, and ignores other blocks. It
// returns nil if there are none, or if one cannot be parsed.
func (l *loader) certificates(f namedFile) (all []*x509.Certificate) {
	for _, block := range pemBlocks(f.content) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			l.complain(f, "", "certificate %d: %s", len(all)+1, strings.TrimPrefix(err.Error(), "x509: "))
			return nil
		}
		all = append(all, cert)
	}
	// The decoder skips blocks that it can't read without a word, such as those that were cut off.
	begun := bytes.Count(f.content, []byte(certificateStart))
	switch {
	case begun == 0:
		l.complain(f, "it must be in PEM form, which starts with "+certificateStart, "contains no certificate")
	case begun != len(all):
		l.complain(f, "", "only %d of %d certificates can be read", len(all), begun)
	default:
		return all
	}
	return nil
}

func pemBlocks(src []byte) []*pem.Block {
	var all []*pem.Block
	for {
		var block *pem.Block
		if block, src = pem.Decode(src); block == nil {
			return all
		}
		all = append(all, block)
	}
}

// clientCertificate returns the certificate that identifies the client to a host,
// with its key. One file may contain both.
func (l *loader) clientCertificate(cert, key namedFile) []tls.Certificate {
	if cert.setting == "" && key.path != "" {
		l.errorf(key.Place, "add client_certificate, or leave both out", "client_key without client_certificate")
		return nil
	}
	if !l.open(&cert) {
		return nil
	}
	if key.setting == "" {
		key = cert
	} else if !l.open(&key) {
		return nil
	}
	// Before anything about the key is reported, each of its lines becomes a secret.
	_, private, _ := bytes.Cut(key.content, []byte("PRIVATE KEY-----"))
	l.secrets.Add(strings.Split(string(private), "\n")...)
	if l.certificates(cert) == nil {
		return nil
	}
	pair, err := tls.X509KeyPair(cert.content, key.content)
	if err != nil {
		l.badKey(key, err)
		return nil
	}
	info, err := l.Files.Stat(key.path)
	if err == nil && l.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 { // Windows has no such modes
		l.warnf(key.Place, "chmod o-rwx "+key.path,
			"%s %s: every user of this machine can read the key", key.setting, key.path)
	}
	return []tls.Certificate{pair}
}

// badKey reports that a key does not belong to the certificate. It matches the text
// of the cause, because crypto/tls returns no typed error, and does not show it,
// because it is worded for programmers.
func (l *loader) badKey(f namedFile, err error) {
	encrypted := func(b *pem.Block) bool {
		return b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED")
	}
	switch {
	case slices.ContainsFunc(pemBlocks(f.content), encrypted):
		l.complain(f, "decrypt it into a file that only you may read: openssl pkey -in FILE -out FILE", "the key is encrypted")
	case strings.Contains(err.Error(), "does not match"):
		l.complain(f, "", "the key does not match the certificate")
	default:
		l.complain(f, "it must be in PEM form, such as -----BEGIN PRIVATE KEY-----", "contains no readable key")
	}
}
