package registry

import (
	"context"
	"errors"

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

// suggestVersion adds the newest version that can be used instead to err, which wraps unsupported. It never suggests
// the version that failed, even if the list has a supported protocol for it.
func (r *Registry) suggestVersion(
	ctx context.Context, id sources.PackageID, unsupported *ProtocolError, err error,
) error {
	best := &unsupported.Closest
	_, unlisted := r.versions(ctx, id.Provider, func(d *versionsDocument) {
		for v, detail := range d.details() {
			newer := *best == sources.Version{} || v.Compare(*best) > 0
			if v != id.Version && len(detail.Protocols) > 0 && detail.Usable() && newer {
				*best = v
			}
		}
	})
	switch {
	case unlisted != nil: // the package's protocols are still known
		return err
	case *best == sources.Version{}:
		return sources.WithHint(err, "no version of this provider can be used")
	case best.Compare(id.Version) > 0:
		return sources.WithHint(err, "%s or a newer version of the provider can be used", best)
	default:
		return sources.WithHint(err, "%s or an older version of the provider can be used", best)
	}
}
