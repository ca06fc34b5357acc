package report

import (
	"strings"

	"github.com/larder-cli/larder/sources"
)

// For leaves the default registry of an engine out of addresses, in the outputs for single root
// modules too. If the output is about root modules of both engines, nothing is left out, as the
// default would be ambiguous. It is called for all engines before addresses are written, so that an
// address has the same form everywhere.
func (o *Output) For(engine sources.Engine) {
	if !o.engines.CompareAndSwap(nil, &engine) && *o.engines.Load() != engine {
		o.engines.Store(new(both))
	}
}

// both is the engine of outputs about both.
const both sources.Engine = ""

// defaultHost is the registry that is left out of addresses, empty if none is. Without an
// engine it is Terraform's.
func (o *Output) defaultHost() string {
	switch engine := o.engines.Load(); {
	case engine == nil:
		return string(sources.Terraform.DefaultHost())
	case *engine == both:
		return ""
	default:
		return string(engine.DefaultHost())
	}
}

// Name is a provider's address without the host if that is the default registry.
func (o *Output) Name(p sources.Provider) string { return o.address(p.String()) }

// Package names a package without the default registry, and without this platform.
func (o *Output) Package(id sources.PackageID) string {
	name := o.Name(id.Provider)
	if id.Version != (sources.Version{}) {
		name += " " + id.Version.String()
	}
	if id.Platform != sources.CurrentPlatform() && id.Platform.OS != "" {
		name += " " + id.Platform.String()
	}
	return name
}

// hosted are addresses on a default registry in a text, and what is in front of them: a URL or a path is none.
// With a slash at the end, they are part of a longer text. Text in double quotes is that of a file, or goes into one.
var hosted = sources.Regexp(`(^|[\s('=])(registry\.terraform\.io|registry\.opentofu\.org)/([0-9a-z_-]+/[0-9a-z_-]+)/?`)

// address leaves the default registry out of the addresses in a text.
func (o *Output) address(text string) string {
	host := o.defaultHost()
	if host == "" || !strings.Contains(text, host+"/") {
		return text
	}
	return hosted().ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, "/") {
			return found
		}
		return strings.Replace(found, host+"/", "", 1)
	})
}
