package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// The provider registry protocol, for the providers whose host is that of the request. It requires signed checksums,
// so it offers only packages with evidence.

// discovery answers with the services of the host.
func (x *exchange) discovery() error {
	return x.document(x.r.URL.Path, func(context.Context) (any, time.Duration, error) {
		return map[string]string{"providers.v1": registryAt}, 0, nil
	})
}

// atHost gives the provider of the target the host of the request.
func (x *exchange) atHost() (err error) {
	x.id.Provider.Host, err = x.host()
	return err
}

// name distinguishes the documents of hosts.
func (x *exchange) name() string { return string(x.id.Provider.Host) + x.r.URL.Path }

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
	if err := x.atHost(); err != nil {
		return err
	}
	return x.document(x.name(), func(ctx context.Context) (any, time.Duration, error) {
		file := struct {
			Versions []registryVersion `json:"versions"`
		}{Versions: []registryVersion{}}
		here, err := x.mirror.versions(ctx, x.id.Provider)
		if err == nil {
			here, err = x.allowed(ctx, x.id.Provider, here...)
		}
		if asked, askedErr := x.asked(x.r); errors.Is(err, sources.ErrNotFound) && askedErr == nil && asked != x.id.Provider.Host {
			err = &refusal{http.StatusNotFound, fmt.Sprintf("this server is not the registry of %s", asked),
				fmt.Errorf("this server is the registry of %s, and the request is for %s", x.id.Provider.Host, asked)}
		}
		if err != nil {
			return nil, 0, err
		}
		for _, v := range here {
			signed, err := x.signedArchives(ctx, sources.Release{Provider: x.id.Provider, Version: v})
			if err != nil {
				return nil, 0, err
			}
			if len(signed.hashes) == 0 {
				continue
			}
			one := registryVersion{Version: v.String(), Platforms: []registryPlatform{}}
			for platform := range signed.hashes {
				one.Platforms = append(one.Platforms, registryPlatform{platform.OS, platform.Arch})
			}
			file.Versions = append(file.Versions, one)
		}
		if len(file.Versions) == 0 {
			return nil, 0, errUnsigned
		}
		return file, 0, nil
	})
}

// signedArchives are the archives of a version that its signed checksums list.
type signedArchives struct {
	hashes map[sources.Platform]sources.Hash
	keys   []sources.Key
}

// signedArchives returns the archives of a version that the mirror has and that its signed checksums list.
func (x *exchange) signedArchives(ctx context.Context, r sources.Release) (signed signedArchives, err error) {
	d, err := x.mirror.release(ctx, r)
	if err != nil {
		return signed, err
	}
	s, err := evidence.Read(x.mirror.dir(), evidence.Path(r.Provider, r.Version))
	if errors.Is(err, sources.ErrNotFound) {
		return signed, nil
	}
	if err != nil {
		return signed, absent(err)
	}
	if sums, err := trust.ParseSums(s.Sums); err == nil { // broken evidence proves nothing; mirror verify reports it
		signed.hashes, signed.keys = sums.Archives(r.Provider, r.Version), s.Keys
	}
	for platform, zh := range signed.hashes {
		if !sources.MatchesAny(d.archives[platform].hashes, zh) {
			delete(signed.hashes, platform)
		}
	}
	return signed, nil
}

type registryPackage struct {
	OS        string       `json:"os"`
	Arch      string       `json:"arch"`
	Filename  string       `json:"filename"`
	URL       string       `json:"download_url"`
	Sums      string       `json:"shasums_url"`
	Signature string       `json:"shasums_signature_url"`
	SHA256    string       `json:"shasum"`
	Keys      registryKeys `json:"signing_keys"`
}

type registryKeys struct {
	Keys []registryKey `json:"gpg_public_keys"`
}

type registryKey struct {
	ID string `json:"key_id"`
	sources.Key
}

// registryDownload answers with where a package is, and how it is signed.
func (x *exchange) registryDownload() error {
	if err := x.atHost(); err != nil {
		return err
	}
	return x.document(x.name(), func(ctx context.Context) (any, time.Duration, error) {
		signed, err := x.signedArchives(ctx, x.id.Release())
		if err != nil {
			return nil, 0, err
		}
		zh, ok := signed.hashes[x.id.Platform]
		if !ok {
			return nil, 0, sources.ErrNotFound
		}
		if _, err := x.allowed(ctx, x.id.Provider, x.id.Version); err != nil {
			return nil, 0, err
		}
		id := x.id
		host := string(id.Provider.Host)
		archive := "/" + id.Provider.Host.ASCII() + "/" + id.Provider.Namespace + "/" + id.Provider.Type + "/" + id.Filename()
		release := registryAt + id.Provider.Namespace + "/" + id.Provider.Type + "/" + id.Version.String() + "/"
		p := registryPackage{
			OS: id.Platform.OS, Arch: id.Platform.Arch, Filename: id.Filename(), URL: x.signed(archive, archive),
			Sums:      x.signed(release+evidence.Sums, host+release+evidence.Sums),
			Signature: x.signed(release+evidence.Signature, host+release+evidence.Signature),
			SHA256:    strings.TrimPrefix(string(zh), sources.ZH+":"),
		}
		for i, id := range trust.KeyIDs(ctx, signed.keys) {
			if id != "" { // otherwise engines couldn't read it either
				p.Keys.Keys = append(p.Keys.Keys, registryKey{id, signed.keys[i]})
			}
		}
		return p, 0, ctx.Err()
	})
}

// registrySums answers with the signed checksums of a version, or their signature.
func (x *exchange) registrySums() error {
	if err := x.atHost(); err != nil {
		return err
	}
	if x.file != evidence.Sums && x.file != evidence.Signature {
		return sources.ErrNotFound
	}
	return x.proof()
}
