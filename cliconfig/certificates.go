package cliconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cliconfig/credentials"
	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
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

// readable reports whether err is nil. Otherwise it adds err, which is about a file, with its hints.
func (l *loader) readable(f namedFile, err error) bool {
	if err != nil {
		err = fmt.Errorf("%s %s: %w", f.setting, f.path, err)
	}
	return l.ok(f.Place, err)
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
	if f.content, err = l.readFile(f.path); err != nil {
		err = sources.WithHint(disk.Cause(err), "%s", f.hint)
	} else if len(f.content) > syntax.MaxFileSize {
		err = fmt.Errorf("larger than %d bytes", syntax.MaxFileSize)
	}
	return l.readable(*f, err)
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
	if !ok || m.HomeDir() == "" || !m.rooted(rest) {
		return typed, false
	}
	return m.join(m.HomeDir(), rest[1:]), true
}

// beside returns an absolute path. Relative paths start from the directory of a file.
func (m Machine) beside(file, path string) string {
	return m.Abs(file[:strings.LastIndexAny(file, m.ForOS(`\/`, "/"))+1], path)
}

// certificates returns the certificates in a file, or nil if it has an error.
func (l *loader) certificates(f namedFile) []*x509.Certificate {
	all, err := credentials.Certificates(f.content)
	l.readable(f, err)
	return all
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
	pair, err := credentials.KeyPair(cert.content, key.content)
	if !l.readable(key, err) {
		return nil
	}
	info, err := l.Files.Stat(key.path)
	if err == nil && l.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 { // Windows has no such modes
		l.warnf(key.Place, "chmod o-rwx "+key.path,
			"%s %s: every user of this machine can read the key", key.setting, key.path)
	}
	return []tls.Certificate{pair}
}

// AWSAuthorities returns the certificate authorities in the file that AWS_CA_BUNDLE names, if it is set.
func (c *Config) AWSAuthorities() ([]*x509.Certificate, error) {
	path := c.AWS.CABundle
	if path == "" {
		return nil, nil
	}
	var all []*x509.Certificate
	data, err := disk.ReadFile(path, syntax.MaxFileSize)
	if err == nil {
		all, err = credentials.Certificates(data)
	}
	if err != nil {
		err = fmt.Errorf("AWS_CA_BUNDLE %s: %w", path, disk.Cause(err))
		err = sources.WithHint(err, "correct AWS_CA_BUNDLE, or unset it")
	}
	return all, err
}
