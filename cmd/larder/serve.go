package main

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/larder-cli/larder/cmd/larder/job/serve"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var serveCommand = &line.Command{
	Name:      "serve",
	Job:       forStores,
	Does:      "serve a mirror to other machines",
	Arguments: "DIR [FLAG...]",
	Least:     1, Most: 1, Needs: needsMirror,
	Example: "larder serve ./mirror --self-signed\nlarder serve ./mirror --self-signed --upstream",
	About: "Clients use it as a network_mirror, or as the registry of providers whose host is its\n" +
		"name. Writes a line for each request. Without TLS, it listens on 127.0.0.1:8080.",
	Flags: append([]line.Flag{
		{Name: "listen", Value: "ADDR", Repeatable: true, Does: "listen on HOST:PORT or unix:PATH", Default: ":8443"},
		{Name: "cert", Value: "FILE", Kind: line.File, Does: "certificate, which is read again when it changes",
			Excludes: "self-signed"},
		{Name: "key", Value: "FILE", Kind: line.File, Does: "key of the certificate"},
		{Name: "self-signed", Does: "use a certificate authority of this machine"},
		{Name: "name", Value: "HOST[:PORT]", Does: "the host name that clients use"},
		{Name: "behind-proxy", Does: "serve plain HTTP, for a proxy with a certificate"},
		{Name: "tokens", Value: "FILE", Kind: line.File, Does: "require a token; FILE has lines of NAME and SHA-256"},
		{Name: "upstream", Does: "fetch missing packages from the configured sources"},
		{Name: "fresh", Value: "TIME", Kind: line.Time, Does: "use lists from upstream for TIME", Default: "5m"},
		maxSizeFlag("remove least recently served packages above SIZE"),
		{Name: "keep-locked-by", Value: "PATH", Kind: line.Dir, Repeatable: true,
			Does: "keep packages that lock files in PATH select"},
	}, trustFlags...),
	Run: atSite(serveMirror),
}

// servedLimit is softLimit for a server, whose connections and requests may use more than that, however many are
// hostile.
const servedLimit = 112 << 20

// serveMirror reads the flags of serve, and serves a mirror.
func serveMirror(ctx context.Context, l *line.Line, s *site.Site) error {
	if debug.SetMemoryLimit(-1) == softLimit {
		debug.SetMemoryLimit(servedLimit)
	}
	r := serve.ServeRequest{
		Dir: l.Word(0), Listen: l.Texts("listen"), Cert: l.Text("cert"), Key: l.Text("key"), Tokens: l.Text("tokens"),
		SelfSigned: l.Bool("self-signed"), BehindProxy: l.Bool("behind-proxy"), Name: l.Text("name"),
		Upstream: l.Bool("upstream"), Fresh: l.Duration("fresh"), MaxSize: l.Size("max-size"),
		KeepLockedBy: l.Texts("keep-locked-by"),
	}
	switch {
	case (r.Cert == "") != (r.Key == ""):
		return report.Usage(errors.New("--cert and --key require each other"))
	case r.Fresh < time.Second:
		return report.Usage(errors.New("--fresh must be at least 1s"))
	case !r.Upstream && (l.IsSet("fresh") || l.IsSet("max-size") || l.IsSet("keep-locked-by")):
		return report.Usage(errors.New("--fresh, --max-size and --keep-locked-by require --upstream"))
	case l.IsSet("keep-locked-by") && r.MaxSize == 0:
		return report.Usage(errors.New("--keep-locked-by requires --max-size"))
	}
	return serve.Serve(ctx, s, r)
}
