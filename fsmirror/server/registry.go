package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// The provider registry protocol, for the providers whose host is that of the request. It requires signed checksums.

// discovery answers with the services of the host.
func (x *exchange) discovery() error {
	return x.json(func(context.Context) (any, time.Duration, error) {
		return map[string]string{"providers.v1": registryAt}, 0, nil
	})
}

type registryVersion struct {
	Version   string             `json:"version"`
	Protocols []string           `json:"protocols,omitempty"` // not stated if they are unknown
	Platforms []registryPlatform `json:"platforms"`
}

type registryPlatform struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// registryVersions answers with the versions of a provider that have signed checksums, and a warning, which engines
// show, about the others. If none has any, they are listed: engines then say what they lack, and not that the provider
// doesn't exist.
func (x *exchange) registryVersions() error {
	return x.json(func(ctx context.Context) (any, time.Duration, error) {
		here, err := x.indexed(x.id.Provider)
		own := x.id.Provider.Host
		if asked, askedErr := x.asked(x.r); errors.Is(err, sources.ErrNotFound) && askedErr == nil && asked != own {
			err = &refusal{http.StatusNotFound, fmt.Sprintf("this server is not the registry of %s", asked),
				fmt.Errorf("this server is the registry of %s, and the request is for %s", own, asked)}
		}
		if err == nil {
			here, err = x.allowed(ctx, here...)
		}
		if err != nil {
			return nil, 0, err
		}
		var all, unsigned []registryVersion
		none := error(sources.ErrNotFound)
		for _, v := range here {
			archives, err := x.registryArchives(sources.Release{Provider: x.id.Provider, Version: v})
			if isDamaged(err) { // the other versions are served
				none, x.served.Error = err, sources.Text(err)
			} else if err != nil && !errors.Is(err, sources.ErrNotFound) {
				return nil, 0, err
			}
			one := registryVersion{Version: v.String(), Protocols: archives.protocols}
			for platform := range archives.hashes {
				one.Platforms = append(one.Platforms, registryPlatform{platform.OS, platform.Arch})
			}
			switch {
			case len(one.Platforms) == 0:
			case archives.unsigned:
				unsigned = append(unsigned, one)
			default:
				all = append(all, one)
			}
		}
		answer := map[string]any{"versions": all}
		if len(unsigned) > 0 {
			answer["warnings"] = []string{withoutChecksums(unsigned)}
			none = nil
		}
		if len(all) == 0 {
			answer["versions"] = unsigned
			return answer, 0, none
		}
		return answer, 0, nil
	})
}

// withoutChecksums returns the warning about versions that clients can't install from a registry.
func withoutChecksums(all []registryVersion) string {
	const most = 5
	var names []string
	for _, v := range slices.Backward(all[max(0, len(all)-most):]) {
		names = append(names, v.Version)
	}
	if more := len(all) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d older", more))
	}
	return "versions without signed checksums can't be installed from a registry: " + strings.Join(names, ", ") +
		"; use the network_mirror method, or have larder import --sign-key sign them on the server"
}

// registryArchives are the archives of a version in the mirror that its signed checksums list, or all of them if it is
// unsigned.
type registryArchives struct {
	hashes    map[sources.Platform]sources.Hash
	keys      []sources.Key
	protocols []string
	unsigned  bool
}

// registryArchives returns the archives of a version. The error matches [sources.ErrNotFound] if the mirror lacks the
// version.
func (s *Server) registryArchives(r sources.Release) (all registryArchives, err error) {
	here, err := s.mirrored(r)
	if err != nil {
		return all, err
	}
	var proof *sources.Signed
	err = s.inMirror(func(dir *disk.Dir) (err error) {
		proof, err = evidence.Read(dir, evidence.Path(r.Provider, r.Version))
		return err
	})
	switch {
	case err == nil:
		sums, _ := trust.ParseSums(proof.Sums) // broken evidence proves nothing; mirror verify reports it
		all = registryArchives{hashes: sums.Archives(r.Provider, r.Version), keys: proof.Keys, protocols: proof.Protocols}
		maps.DeleteFunc(all.hashes, func(platform sources.Platform, zh sources.Hash) bool {
			return !sources.MatchesAny(here.archives[platform], zh)
		})
	case !errors.Is(err, sources.ErrNotFound):
		return all, err
	}
	if all.unsigned = len(all.hashes) == 0; all.unsigned {
		all.hashes = map[sources.Platform]sources.Hash{}
		for platform, hashes := range here.archives {
			for _, zh := range sources.HashesOf(sources.ZH, hashes) {
				all.hashes[platform] = zh
			}
		}
	}
	return all, nil
}

type registryPackage struct {
	Protocols []string `json:"protocols,omitempty"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Filename  string   `json:"filename"`
	URL       string   `json:"download_url"`
	Sums      string   `json:"shasums_url"`
	Signature string   `json:"shasums_signature_url"`
	SHA256    string   `json:"shasum"`
	Signing   struct {
		Keys []registryKey `json:"gpg_public_keys"`
	} `json:"signing_keys"`
}

type registryKey struct {
	ID string `json:"key_id"`
	sources.Key
}

// registryDownload answers with where a package is, and how it is signed. The checksums of an unsigned one don't exist,
// and engines say so.
func (x *exchange) registryDownload() error {
	return x.json(func(ctx context.Context) (any, time.Duration, error) {
		signed, err := x.registryArchives(x.id.Release())
		if err != nil {
			return nil, 0, err
		}
		zh, ok := signed.hashes[x.id.Platform]
		if !ok {
			return nil, 0, sources.ErrNotFound
		}
		if _, err := x.allowed(ctx, x.id.Version); err != nil {
			return nil, 0, err
		}
		p, file := x.id.Provider, x.id.Filename()
		archive := "/" + p.Host.ASCII() + "/" + p.Namespace + "/" + p.Type + "/" + file
		release := registryAt + p.Namespace + "/" + p.Type + "/" + x.id.Version.String() + "/"
		pkg := registryPackage{
			Protocols: signed.protocols,
			OS:        x.id.Platform.OS, Arch: x.id.Platform.Arch, Filename: file, URL: archive + x.signature(archive),
			Sums:      release + evidence.Sums + x.signature(release+evidence.Sums),
			Signature: release + evidence.Signature + x.signature(release+evidence.Signature),
			SHA256:    strings.TrimPrefix(string(zh), sources.ZH+":"),
		}
		for i, id := range trust.KeyIDs(ctx, signed.keys) {
			if id != "" { // otherwise engines couldn't read it either
				pkg.Signing.Keys = append(pkg.Signing.Keys, registryKey{id, signed.keys[i]})
			}
		}
		return pkg, 0, ctx.Err()
	})
}
