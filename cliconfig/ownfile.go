package cliconfig

import (
	"context"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
)

// defaultArchivesMB is enough for the largest providers, for several platforms.
const defaultArchivesMB = 4000

// ownConfig reads a file of Larder's own, which has the settings that engine configuration lacks, in the
// same syntax.
func (l *loader) ownConfig(root *syntax.Node, layer policy.Layer) {
	installation := l.installation(true)
	if layer == policy.Site {
		installation = func(e syntax.Entry) {
			l.errorf(e.Place, "move it to Larder's own file, larder/config.hcl in a configuration directory",
				"%s has no place in the file of the machine's owner", e.Key)
		}
	}
	l.readOwn(root, fields{
		"host":             l.ownHosts(),
		installationBlock:  installation,
		policyBlockName:    l.policy(layer, &l.config.Policy),
		"keep_archives_mb": l.noting(l.number(func(n int) { l.config.KeepArchivesMB = n })),
		engineSetting:      l.noting(l.engineName(new(sources.Engine))), // used by OwnSetting
	}, `this file has host "…" { … }, policy { … } and provider_installation { … } blocks, keep_archives_mb `+
		"and engine; everything else belongs in the CLI configuration")
}

// LarderFile is the path of Larder's own file: of the one that was read, or else of the one
// to create. It is empty if there is no place for one.
func (c *Config) LarderFile() string {
	for _, f := range c.files {
		if f.What == ownFile {
			return f.Name
		}
	}
	return ""
}

// ownHosts is a field for host blocks. Each host may have one.
func (l *loader) ownHosts() field {
	first := map[sources.Host]Place{}
	return l.oneLabel(l.ofHost(func(host sources.Host, b syntax.Entry) {
		if at, again := first[host]; again {
			l.errorf(b.Place, "put all settings of a host into one block",
				"second block for host %s; the first is at line %d", host, at.Line)
			return
		}
		first[host] = b.Place
		l.config.HostOptions[host] = l.hostOptions(host, b.Value)
	}))
}

func (l *loader) hostOptions(host sources.Host, body *syntax.Node) fetch.HostOptions {
	var authorities, certificate, key namedFile
	o := fetch.HostOptions{Headers: map[string]string{}}
	known := fields{
		"ca_file":                l.file(&authorities),
		"client_certificate":     l.file(&certificate),
		"client_key":             l.file(&key),
		"send_token_to_archives": l.flag(&o.TokenForArchives),
		"token_server": l.parsed(func(text string) (err error) { // of tokens for an OCI registry
			l.config.oci.tokenServers[host], err = sources.ParseHost(text)
			return err
		}, textKinds...),
		"headers": l.members("a map of strings", `{ "NAME" = "VALUE" }`, func(e syntax.Entry) { l.header(e, o.Headers) }),
	}
	for name, read := range known {
		known[name] = l.yielding(string(host), read, func(s Setting) {
			if name == "headers" {
				s.Value = strings.Join(slices.Sorted(maps.Keys(o.Headers)), ", ")
			}
			l.config.note(s)
		})
	}
	l.readOwn(body, known, settingsOf("a host", known))
	if l.open(&authorities) {
		o.Authorities = l.certificates(authorities)
	}
	o.Certificates = l.clientCertificate(certificate, key)
	return o
}

// header adds a header to those before. No message contains its value.
func (l *loader) header(e syntax.Entry, before map[string]string) {
	l.secrets.Add(e.Value.Text)
	name := textproto.CanonicalMIMEHeaderKey(e.Key)
	_, again := before[name]
	hint := ourHeader(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		l.errorf(e.Place, "", "%.40q cannot be the name of a header", e.Key)
	case hint != "":
		l.errorf(e.Place, hint, "header %s cannot be set here", name)
	case again:
		l.errorf(e.Place, "", "header %s is set twice (case is ignored)", name)
	case !l.is(e.Value, writeQuotes, "header "+name+" must be a string", textKinds...):
	case !httpguts.ValidHeaderFieldValue(e.Value.Text):
		l.errorf(e.Value.Place, "it must be one line", "header %s has characters that cannot be sent", name)
	default:
		before[name] = e.Value.Text
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

// An OwnSetting is what Larder's own files say that is needed before [Load], which also reports their errors.
type OwnSetting struct {
	Engine sources.Engine // that the user's file names, or else that of the site; empty if neither does, or has errors
	File   string         // that names it
	Policy bool           // one of the files may have a policy; true also for a file that can't be read or parsed
}

// OwnSetting reads Larder's own files.
func (m Machine) OwnSetting(ctx context.Context) (s OwnSetting) {
	l := &loader{Machine: m, ctx: ctx}
	for _, f := range append(m.ownFile(), m.siteFile()) {
		if f.Name == "" || f.State == FileUnread || f.By == "" && m.absent(f) {
			continue
		}
		src, err := l.contents(f)
		root, bad := syntax.Parse(f.Name, src)
		if err != nil || bad != nil {
			s.Policy = true
			continue
		}
		var e sources.Engine
		hasPolicy := func(syntax.Entry) { s.Policy = true }
		l.readOwn(root, fields{engineSetting: l.engineName(&e), policyBlockName: hasPolicy}, "")
		if s.Engine == "" && e != "" {
			s.Engine, s.File = e, f.Name
		}
	}
	return s
}
