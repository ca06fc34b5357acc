package registry

import (
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// checkProtocols checks that a package has a supported protocol. A package
// without a list of protocols is accepted.
func checkProtocols(protocols []string) error {
	supported := len(protocols) == 0
	for _, text := range protocols {
		v, err := sources.ParseVersion(text)
		if err != nil {
			return errors.New("protocols: " + err.Error()) // without the hints of err, which are for constraints
		}
		supported = supported || sources.SupportedProtocol(v.String())
	}
	if !supported {
		return &ProtocolError{Protocols: protocols}
	}
	return nil
}

// speaks reports whether the release lists a supported protocol.
func (r release) speaks() bool {
	return slices.ContainsFunc(r.Protocols, func(text string) bool {
		v, err := sources.ParseVersion(text)
		return err == nil && sources.SupportedProtocol(v.String())
	})
}

// suggestVersion adds the version that can be used instead to err, which wraps unsupported.
func (r *Registry) suggestVersion(ctx context.Context, id sources.PackageID, unsupported *ProtocolError, err error) error {
	_, unlisted := r.versions(ctx, id.Provider, func(d *versionsDocument) { unsupported.Closest = d.closest(id.Version) })
	switch {
	case unlisted != nil: // the package's protocols are still known
		return err
	case unsupported.Closest == sources.Version{}:
		return sources.WithHint(err, "no version of this provider can be used")
	case unsupported.Closest.Compare(id.Version) > 0:
		return sources.WithHint(err, "%s or a newer version of the provider can be used", unsupported.Closest)
	default:
		return sources.WithHint(err, "%s or an older version of the provider can be used", unsupported.Closest)
	}
}

// closest returns the newest version with a supported protocol, or zero. It
// never returns the version that failed, even if the list has a supported
// protocol for it.
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
