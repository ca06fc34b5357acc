package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// The provider registry protocol, for the providers whose host is that of the request. It requires signed checksums,
// so it offers only packages with evidence.

// discovery answers with the services of the host.
func (x *exchange) discovery() error {
	return x.json(func(context.Context) (any, time.Duration, error) {
		return map[string]string{"providers.v1": registryAt}, 0, nil
	})
}

type registryVersion struct {
	Version   string             `json:"version"`
	Platforms []registryPlatform `json:"platforms"`
}

type registryPlatform struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// registryVersions answers with the versions of a provider that have signed checksums.
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
		var all []registryVersion
		none := errUnsigned
		for _, v := range here {
			signed, err := x.signedArchives(sources.Release{Provider: x.id.Provider, Version: v})
			if isDamaged(err) { // the other versions are served
				none, x.served.Error = err, sources.Text(err)
			} else if err != nil && !errors.Is(err, sources.ErrNotFound) {
				return nil, 0, err
			}
			one := registryVersion{Version: v.String()}
			for platform := range signed.hashes {
				one.Platforms = append(one.Platforms, registryPlatform{platform.OS, platform.Arch})
			}
			if len(one.Platforms) > 0 {
				all = append(all, one)
			}
		}
		if len(all) == 0 {
			return nil, 0, none
		}
		return map[string][]registryVersion{"versions": all}, 0, nil
	})
}

// signedArchives are the archives of a version that its signed checksums list.
type signedArchives struct {
	hashes map[sources.Platform]sources.Hash
	keys   []sources.Key
}

// signedArchives returns the archives of a version that the mirror has and that its signed checksums list. The error
// matches [sources.ErrNotFound] if the mirror lacks the version or its checksums.
func (s *Server) signedArchives(r sources.Release) (signed signedArchives, err error) {
	here, err := s.mirrored(r)
	if err != nil {
		return signed, err
	}
	var proof *sources.Signed
	err = s.inMirror(func(dir *disk.Dir) (err error) {
		proof, err = evidence.Read(dir, evidence.Path(r.Provider, r.Version))
		return err
	})
	if err != nil {
		return signed, err
	}
	if sums, err := trust.ParseSums(proof.Sums); err == nil { // broken evidence proves nothing; mirror verify reports it
		signed.hashes, signed.keys = sums.Archives(r.Provider, r.Version), proof.Keys
	}
	maps.DeleteFunc(signed.hashes, func(platform sources.Platform, zh sources.Hash) bool {
		return !sources.MatchesAny(here.archives[platform], zh)
	})
	return signed, nil
}

type registryPackage struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Filename  string `json:"filename"`
	URL       string `json:"download_url"`
	Sums      string `json:"shasums_url"`
	Signature string `json:"shasums_signature_url"`
	SHA256    string `json:"shasum"`
	Signing   struct {
		Keys []registryKey `json:"gpg_public_keys"`
	} `json:"signing_keys"`
}

type registryKey struct {
	ID string `json:"key_id"`
	sources.Key
}

// registryDownload answers with where a package is, and how it is signed.
func (x *exchange) registryDownload() error {
	return x.json(func(ctx context.Context) (any, time.Duration, error) {
		signed, err := x.signedArchives(x.id.Release())
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
			OS: x.id.Platform.OS, Arch: x.id.Platform.Arch, Filename: file, URL: archive + x.signature(archive),
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
