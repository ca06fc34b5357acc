package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// supportedProtocols are the major versions of the plugin protocol that engines
// speak.
var supportedProtocols = []string{"5", "6"}

// checkProtocols checks that one of a package's protocols is supported. A
// package that lists none is taken at its word.
func checkProtocols(protocols []string) error {
	supported := len(protocols) == 0
	for _, text := range protocols {
		v, err := sources.ParseVersion(text)
		if err != nil {
			return fmt.Errorf("protocols: %s", err) // without the hints of err, which are for constraints
		}
		supported = supported || supportedProtocol(v)
	}
	if !supported {
		return &ProtocolError{Protocols: protocols}
	}
	return nil
}

func supportedProtocol(v sources.Version) bool {
	major, _, _ := strings.Cut(v.String(), ".")
	return slices.Contains(supportedProtocols, major)
}

// speaks reports whether the release lists a protocol that we know is good.
func (r release) speaks() bool {
	return slices.ContainsFunc(r.Protocols, func(text string) bool {
		v, err := sources.ParseVersion(text)
		return err == nil && supportedProtocol(v)
	})
}

// suggestVersion adds to an error, in which unsupported is, the version to use instead.
func (r *Registry) suggestVersion(ctx context.Context, id sources.PackageID, unsupported *ProtocolError, all error) error {
	doc, err := r.versions(ctx, id.Provider)
	if err == nil {
		unsupported.Closest = doc.closest(id.Version)
	}
	switch {
	case err != nil: // the package's protocols are known all the same
		return all
	case unsupported.Closest == sources.Version{}:
		return sources.WithHint(all, "no version of this provider can be used")
	case unsupported.Closest.Compare(id.Version) > 0:
		return sources.WithHint(all, "%s or a newer version of the provider can be used", unsupported.Closest)
	default:
		return sources.WithHint(all, "%s or an older version of the provider can be used", unsupported.Closest)
	}
}

// closest is the newest version with a protocol that is supported, or zero. It is never
// the one that has turned out not to have one, whatever the list says of it.
func (d *versionsDocument) closest(failed sources.Version) sources.Version {
	var best sources.Version
	for _, release := range d.Versions {
		v, err := sources.ParseVersion(release.Version)
		if err != nil || v == failed || !release.speaks() {
			continue
		}
		if best == (sources.Version{}) || v.Compare(best) > 0 {
			best = v
		}
	}
	return best
}
