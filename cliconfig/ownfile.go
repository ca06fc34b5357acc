package cliconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// HostOptions apply to one host and port.
type HostOptions struct {
	Authorities      []*x509.Certificate // authorities trusted for the host, besides the system's
	Certificates     []tls.Certificate   // client certificates; at most one
	Headers          map[string]string   // added to each request, by canonical name; the values are secrets
	TokenForArchives bool                // also send the host's token for archives and their checksums
}

// defaultArchivesMB is enough for the largest providers, for several platforms.
const defaultArchivesMB = 4000

// ownConfig reads a file of Larder's own, which has the settings that engine configuration lacks, in the
// same syntax.
func (l *loader) ownConfig(root *node, layer policy.Layer) {
	installation := l.ownInstallation
	if layer == policy.Site {
		installation = l.misplacedInstallation
	}
	l.readOwn(root, fields{
		"host":             l.ownHosts(),
		installationBlock:  installation,
		"policy":           l.policy(layer, &l.config.Policy),
		"keep_archives_mb": l.noting("", l.number(func(n int) { l.config.KeepArchivesMB = n })),
		engineSetting:      l.noting("", l.engineName(new(sources.Engine))), // used by EngineSetting
	}, `this file has host "…" { … }, policy { … } and provider_installation { … } blocks, keep_archives_mb and engine; everything else belongs in the CLI configuration`)
}

// misplacedInstallation is the field for a provider_installation block in the file of the site.
func (l *loader) misplacedInstallation(e entry) {
	l.errorf(e.place, "move it to Larder's own file, larder/config.hcl in a configuration directory", "%s has no place in the file of the machine's owner", e.key)
}

// LarderFile is the path of Larder's own file: of the one that was read, or else of the one
// to create. It is empty if there is no place for one.
func (c *Config) LarderFile() string {
	for _, f := range c.files {
		if f.kind == ownFile {
			return f.path
		}
	}
	return ""
}

// ownHosts is a field for host blocks. Each host may have one.
func (l *loader) ownHosts() field {
	first := map[sources.Host]place{}
	blocks := l.hostBlocks(func(host sources.Host, b entry) {
		at, again := first[host]
		switch {
		case again:
			l.errorf(b.place, "put all settings of a host into one block", "second block for host %s; the first is at line %d", host, at.line)
		case labeled(b.value):
			l.errorf(b.value.entries[0].place, "leave it out", "host takes one label")
		default:
			first[host] = b.place
			l.config.HostOptions[host] = l.hostOptions(host, b.value)
		}
	})
	return l.withLabel(blocks)
}

func (l *loader) hostOptions(of sources.Host, body *node) HostOptions {
	host := string(of)
	var authorities, certificate, key namedFile
	o := HostOptions{Headers: map[string]string{}}
	known := fields{
		"ca_file":                l.noting(host, l.file(&authorities)),
		"client_certificate":     l.noting(host, l.file(&certificate)),
		"client_key":             l.noting(host, l.file(&key)),
		"send_token_to_archives": l.noting(host, l.flag(&o.TokenForArchives)),
		"headers":                l.headers(host, o.Headers),
		"token_server":           l.noting(host, l.tokenServer(of)),
	}
	l.readOwn(body, known, "the settings of a host are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	if l.open(&authorities) {
		o.Authorities = l.certificates(authorities)
	}
	o.Certificates = l.clientCertificate(certificate, key)
	return o
}

// tokenServer is a field for the server of tokens for an OCI registry.
func (l *loader) tokenServer(of sources.Host) field {
	return func(e entry) {
		if !l.isText(e.value, e.key+" must be a string") {
			return
		}
		if server, err := sources.ParseHost(e.value.text); l.ok(e.value.place, err) {
			l.config.oci.tokenServers[of] = server
		}
	}
}

// headers is a field for the headers of a host.
func (l *loader) headers(host string, to map[string]string) field {
	read := l.members("a map of strings", `{ "NAME" = "VALUE" }`, func(e entry) { l.header(e, to) })
	return func(e entry) {
		read(e)
		l.note(Setting{Name: e.key, Of: host, Value: strings.Join(slices.Sorted(maps.Keys(to)), ", "), From: e.from()})
	}
}

// header adds a header to those before. No message contains its value.
func (l *loader) header(e entry, before map[string]string) {
	l.secrets.Add(e.value.text)
	name := textproto.CanonicalMIMEHeaderKey(e.key)
	_, again := before[name]
	hint := ourHeader(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		l.errorf(e.place, "", "%.40q cannot be the name of a header", e.key)
	case hint != "":
		l.errorf(e.place, hint, "header %s cannot be set here", name)
	case again:
		l.errorf(e.place, "", "header %s is set twice (case is ignored)", name)
	case !l.isText(e.value, "header "+name+" must be a string"):
	case !httpguts.ValidHeaderFieldValue(e.value.text):
		l.errorf(e.value.place, "it must be one line", "header %s has characters that cannot be sent", name)
	default:
		before[name] = e.value.text
	}
}

// ourHeader returns a hint for a header that Larder sets, or that isn't for one host, and "" for
// any other.
func ourHeader(name string) string {
	switch name {
	case "Authorization":
		return "put a token into a credentials block of the CLI configuration, a password into the netrc file"
	case "Proxy-Authorization":
		return "put user and password into the URL in HTTPS_PROXY"
	case "User-Agent":
		return "add to it with TF_APPEND_USER_AGENT"
	case "Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect",
		"Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Keep-Alive",
		"Proxy-Connection", "Range", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Terraform-Version":
		return "remove it: larder sets this header itself"
	}
	return ""
}

// HasPolicy reports whether one of Larder's own files may have a policy, without the cost of [Load]. It is true also
// for a file with errors, which Load reports.
func (m Machine) HasPolicy(ctx context.Context) bool {
	return slices.ContainsFunc([]file{m.ownFile(), m.siteFile()}, func(f file) bool {
		l := &loader{Machine: m, ctx: ctx}
		if f.path == "" || f.by == "" && l.absent(f) {
			return false
		}
		src, err := l.contents(f)
		if err != nil {
			return true
		}
		root, bad := parse(f.path, src)
		return bad != nil || slices.ContainsFunc(root.entries, func(e entry) bool { return e.key == "policy" })
	})
}

// EngineSetting returns the engine that the user's own file names, or else that of the site, and the path of
// the file. The engine is empty if none names one, or has errors, which [Load] reports.
func (m Machine) EngineSetting(ctx context.Context) (e sources.Engine, path string) {
	for _, f := range []file{m.ownFile(), m.siteFile()} {
		if f.path == "" || f.by == "" && m.absent(f) {
			continue
		}
		l := &loader{Machine: m, ctx: ctx}
		if src, err := l.contents(f); err == nil {
			if root, bad := parse(f.path, src); bad == nil {
				l.readOwn(root, fields{engineSetting: l.engineName(&e)}, "")
			}
		}
		if e != "" {
			return e, f.path
		}
	}
	return "", ""
}
