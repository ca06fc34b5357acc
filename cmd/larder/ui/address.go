package ui

import (
	"cmp"
	"regexp"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
)

// Name is a provider's address without the host if that is the default registry.
func (o *Output) Name(p sources.Provider) string { return p.Display(o.engine()) }

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

func (o *Output) engine() sources.Engine { return cmp.Or(o.Engine, sources.Terraform) }

// hosted are addresses on a default registry in a text, and what is in front of them: a
// URL or a path is none.
var hosted = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[\s("'=])(registry\.terraform\.io|registry\.opentofu\.org)/([0-9a-z_-]+/[0-9a-z_-]+)`)
})

// address leaves the default registry out of the addresses in a text.
func (o *Output) address(text string) string {
	host := string(o.engine().DefaultHost())
	if !strings.Contains(text, host+"/") {
		return text
	}
	return hosted().ReplaceAllStringFunc(text, func(found string) string {
		return strings.Replace(found, host+"/", "", 1)
	})
}

// addresses is address for each span of a line.
func (o *Output) addresses(line Line) Line {
	short := make(Line, len(line))
	for i, s := range line {
		short[i] = Span{o.address(s.Text), s.Paint}
	}
	return short
}
