package cliconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Larder's own file has the settings that engine configuration lacks. It uses the
// same syntax, but unknown settings are errors because no other program reads it.
const (
	larderVariable   = "LARDER_CONFIG"
	larderFileReason = "larder's own"
)

// HostOptions apply to one host and port.
type HostOptions struct {
	Authorities      []*x509.Certificate // authorities trusted for the host, besides the system's
	Certificates     []tls.Certificate   // client certificates; at most one
	Headers          map[string]string   // added to each request, by canonical name; the values are secrets
	TokenForArchives bool                // also send the host's token for archives and their checksums
}

// hostSettings are the settings in a host block.
var hostSettings = []string{"ca_file", "client_certificate", "client_key", "headers", "send_token_to_archives"}

// larderFile reads Larder's own file, if there is one, into c.
func (l *loader) larderFile(c *Config) {
	c.KeepArchivesMB = defaultArchivesMB
	f := l.chooseLarderFile()
	if f.path == "" {
		return
	}
	root, ok := l.loadTree(f)
	if !ok {
		return
	}
	defer l.sort(len(l.diags))
	for _, e := range root.entries {
		switch {
		case e.key == trustedKeys, e.key == keepArchives, e.key == engineSetting:
		case e.key != "host":
			l.unknown(e, []string{"host", trustedKeys, keepArchives, engineSetting}, `this file has host "…" { … } blocks, trusted_keys, keep_archives_mb and engine; everything else belongs in the CLI configuration`)
		case e.value.kind == isObject && len(e.value.entries) == 0:
			l.errorf(e.place, `write host "…" { … }`, "host has no label")
		}
	}
	l.engineIn(root) // for its errors
	c.HostOptions, c.TrustedKeys = l.hostBlocks(root), l.trustedKeys(root)
	if mb, ok := l.intOf(root, keepArchives); ok {
		c.KeepArchivesMB = mb
	}
}

const (
	trustedKeys  = "trusted_keys"
	keepArchives = "keep_archives_mb"

	// defaultArchivesMB is the default of keepArchives. It is enough for the largest
	// providers, for several platforms.
	defaultArchivesMB = 4000
)

// trustedKeys returns the only keys that may sign the providers to which they apply.
// Every problem in them is an error, because without them other keys would be
// accepted.
func (l *loader) trustedKeys(root *node) []sources.TrustedKeys {
	var all []sources.TrustedKeys
	first := map[sources.Pattern]place{}
	for _, e := range root.find("trusted_keys") {
		if e.value.kind != isObject || labelled(e.value) {
			l.errorf(e.value.place, `write trusted_keys = { "acme/*" = ["FINGERPRINT"] }`, "trusted_keys must be a map of lists, not %s", e.value.kind)
			continue
		}
		for _, item := range e.value.entries {
			pattern, err := sources.ParsePattern(item.key)
			if err != nil {
				l.error(item.place, err)
				continue
			}
			if at, again := first[pattern]; again {
				l.errorf(item.place, "put all keys into one list", "second list of trusted keys for %s; the first is at line %d", item.key, at.line)
				continue
			}
			first[pattern] = item.place
			all = append(all, sources.TrustedKeys{Providers: pattern, Keys: l.fingerprints(item)})
		}
	}
	return all
}

// fingerprints returns the fingerprints in the list for a pattern.
func (l *loader) fingerprints(item entry) []sources.Fingerprint {
	if item.value.kind != isList || len(item.value.items) == 0 {
		l.errorf(item.value.place, `write a list of fingerprints, in double quotes`, "the trusted keys for %s must be a list that is not empty", item.key)
		return nil
	}
	var keys []sources.Fingerprint
	for _, n := range item.value.items {
		if n.kind != isString {
			l.errorf(n.place, "write it in double quotes", "the trusted keys for %s must be strings, not %s", item.key, n.kind)
			continue
		}
		key, err := sources.ParseFingerprint(n.text)
		if err != nil {
			l.error(n.place, err)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// chooseLarderFile returns the file that LARDER_CONFIG names, else the first one
// found in the configuration directories. Its path is empty if there is none.
func (l *loader) chooseLarderFile() file {
	if path := l.getenv(larderVariable); path != "" {
		return file{l.abs(l.WorkDir, path), larderVariable}
	}
	for _, dir := range l.ConfigDirs {
		if path := l.below(dir, "larder", "config.hcl"); path != "" && l.exists(path) {
			return file{path, larderFileReason}
		}
	}
	return file{}
}

// LarderFile is the path of Larder's own file: of the one that was read, or else of the one
// to create. It is empty if there is no place for one.
func (c *Config) LarderFile() string {
	for _, f := range c.files {
		if f.why == larderFileReason || f.why == larderVariable {
			return f.path
		}
	}
	for _, dir := range c.machine.ConfigDirs {
		if path := c.machine.below(dir, "larder", "config.hcl"); path != "" {
			return path
		}
	}
	return ""
}

func (l *loader) hostBlocks(root *node) map[sources.Host]HostOptions {
	all := map[sources.Host]HostOptions{}
	first := map[sources.Host]place{}
	for _, b := range l.blocks(root, "host") {
		host, err := sources.ParseHost(b.label)
		switch at, again := first[host]; {
		case err != nil:
			l.error(b.place, err)
		case again:
			l.errorf(b.place, "put all settings of a host into one block", "second block for host %s; the first is at line %d", host, at.line)
		case labelled(b.body):
			l.errorf(b.body.entries[0].place, "leave it out", "host takes one label")
		default:
			all[host], first[host] = l.hostBlock(b), b.place
		}
	}
	return all
}

func (l *loader) hostBlock(b block) HostOptions {
	l.checkSettings(b.body)
	send := l.boolOf(b.body, "send_token_to_archives")
	o := HostOptions{
		Certificates:     l.clientCertificate(b.body),
		Headers:          l.headers(b.body),
		TokenForArchives: send,
	}
	if file, ok := l.fileOf(b.body, "ca_file"); ok {
		o.Authorities, _ = l.certificates(file)
	}
	return o
}

// checkSettings reports unknown and duplicate settings.
func (l *loader) checkSettings(body *node) {
	seen := map[string]place{}
	for _, e := range body.entries {
		at, again := seen[e.key]
		switch {
		case !slices.Contains(hostSettings, e.key):
			l.unknown(e, hostSettings, "the settings of a host are "+strings.Join(hostSettings, ", "))
		case again:
			l.errorf(e.place, "", "%s is set twice; first at line %d", e.key, at.line)
		default:
			seen[e.key] = e.place
		}
	}
}

// unknown reports a name that is not in known.
func (l *loader) unknown(e entry, known []string, hint string) {
	if name := sources.Nearest(e.key, known); name != "" {
		hint = didYouMean(name)
	}
	l.errorf(e.place, hint, "unknown setting %.40q", e.key)
}

// didYouMean is a hint.
func didYouMean(name string) string { return fmt.Sprintf("did you mean %q?", name) }

// A namedFile is a file that a setting names, with its contents.
type namedFile struct {
	place
	setting, path string
	content       []byte
}

// complain reports a problem with a file.
func (l *loader) complain(f namedFile, hint, format string, args ...any) {
	l.errorf(f.place, hint, "%s %s: %s", f.setting, f.path, fmt.Sprintf(format, args...))
}

// fileOf reads the file that a setting of n names. It returns false if n lacks the
// setting. If the file cannot be read, it adds a diagnostic and returns false.
func (l *loader) fileOf(n *node, setting string) (namedFile, bool) {
	text, at, ok := l.stringOf(n, setting)
	if !ok {
		return namedFile{}, false
	}
	if text == "" {
		l.errorf(at, "", "%s is empty", setting)
		return namedFile{}, false
	}
	f := namedFile{place: at, setting: setting, path: l.expandHome(at, text)}
	var err error
	f.content, err = l.read(f.path)
	switch {
	case err != nil && l.rooted(text):
		l.complain(f, "", "%v", disk.Cause(err))
	case err != nil:
		l.complain(f, "relative paths start from the directory of this file", "%v", disk.Cause(err))
	case len(f.content) > maxFileSize:
		l.complain(f, "", "larger than %d bytes", maxFileSize)
	default:
		return f, true
	}
	return namedFile{}, false
}

// expandHome expands a path in a file: ~ is the home directory, and relative paths
// start from the directory of that file.
func (l *loader) expandHome(at place, path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && l.home() != "" && l.rooted(rest) {
		return l.join(l.home(), rest[1:])
	}
	return l.abs(l.dir(at.file), path)
}

const certificateStart = "-----BEGIN CERTIFICATE-----"

// certificates returns the certificates in a PEM file, and ignores other blocks. It
// returns false if there are none, or if one cannot be parsed.
func (l *loader) certificates(f namedFile) ([]*x509.Certificate, bool) {
	var all []*x509.Certificate
	for _, block := range pemBlocks(f.content) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			l.complain(f, "", "certificate %d: %s", len(all)+1, strings.TrimPrefix(err.Error(), "x509: "))
			return nil, false
		}
		all = append(all, cert)
	}
	begun := bytes.Count(f.content, []byte(certificateStart))
	switch {
	case begun == 0:
		l.complain(f, "it must be in PEM form, which starts with "+certificateStart, "contains no certificate")
	case begun != len(all):
		l.complain(f, "", "of %d certificates %d can be read", begun, len(all))
	default:
		return all, true
	}
	return nil, false
}

// privateKey returns the part of a PEM file from its private key on.
func privateKey(src []byte) []byte {
	_, key, _ := bytes.Cut(src, []byte("PRIVATE KEY-----"))
	return key
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
// with its key.
func (l *loader) clientCertificate(body *node) []tls.Certificate {
	if _, at, ok := l.stringOf(body, "client_key"); ok && len(body.find("client_certificate")) == 0 {
		l.errorf(at, "add client_certificate, or leave both out", "client_key without client_certificate")
		return nil
	}
	cert, ok := l.fileOf(body, "client_certificate")
	if !ok {
		return nil
	}
	key := cert // one file may contain both
	if len(body.find("client_key")) > 0 {
		if key, ok = l.fileOf(body, "client_key"); !ok {
			return nil
		}
	}
	l.secrets.Add(strings.Split(string(privateKey(key.content)), "\n")...)
	if _, ok := l.certificates(cert); !ok {
		return nil
	}
	pair, err := tls.X509KeyPair(cert.content, key.content)
	if err != nil {
		l.badKey(key, err)
		return nil
	}
	l.checkPrivate(key)
	return []tls.Certificate{pair}
}

// checkPrivate warns about a key that other users can read. Windows has no such
// modes.
func (l *loader) checkPrivate(f namedFile) {
	info, err := l.Files.Stat(f.path)
	if err == nil && l.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 {
		l.warnf(f.place, "chmod o-rwx "+f.path, "%s %s: every user of this machine can read the key", f.setting, f.path)
	}
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
		l.complain(f, "", "the key is not that of the certificate")
	default:
		l.complain(f, "it must be in PEM form, such as -----BEGIN PRIVATE KEY-----", "contains no readable key")
	}
}

// headers returns the headers in body. No message contains their values.
func (l *loader) headers(body *node) map[string]string {
	all := map[string]string{}
	for _, e := range body.find("headers") {
		if e.value.kind != isObject || labelled(e.value) {
			l.errorf(e.value.place, `write headers = { "NAME" = "VALUE" }`, "headers must be a map of strings, not %s", e.value.kind)
			continue
		}
		for _, h := range e.value.entries {
			l.secrets.Add(h.value.text)
			name := textproto.CanonicalMIMEHeaderKey(h.key)
			if l.checkHeader(name, h, all) {
				all[name] = h.value.text
			}
		}
	}
	return all
}

func (l *loader) checkHeader(name string, h entry, before map[string]string) bool {
	_, again := before[name]
	why, ours := ourHeaders()[name]
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		l.errorf(h.place, "", "%.40q cannot be the name of a header", h.key)
	case ours:
		l.errorf(h.place, why, "header %s cannot be set here", name)
	case again:
		l.errorf(h.place, "", "header %s is set twice (case is ignored)", name)
	case h.value.kind != isString && h.value.kind != isNumber:
		l.errorf(h.value.place, "write it in double quotes", "header %s must be a string, not %s", name, h.value.kind)
	case !httpguts.ValidHeaderFieldValue(h.value.text):
		l.errorf(h.value.place, "it must be one line", "header %s has characters that cannot be sent", name)
	default:
		return true
	}
	return false
}

// ourHeaders maps headers that cannot be set to hints.
var ourHeaders = sync.OnceValue(func() map[string]string {
	return withReason("remove it: larder sets this header itself", map[string]string{
		"Authorization":       "put a token into a credentials block of the CLI configuration, a password into the netrc file",
		"Proxy-Authorization": "put user and password into the URL in HTTPS_PROXY",
		"User-Agent":          "add to it with TF_APPEND_USER_AGENT",
	},
		"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect",
		"Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Keep-Alive",
		"Proxy-Connection", "Range", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Terraform-Version")
})

func withReason(reason string, known map[string]string, names ...string) map[string]string {
	for _, name := range names {
		known[name] = reason
	}
	return known
}
