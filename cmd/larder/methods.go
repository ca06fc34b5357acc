package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/registry"
)

// source is everything that the configuration says may be asked for providers,
// or the directories of --plugin-dir alone.
func (s *session) source(ctx context.Context, pluginDirs []string) (sources.Source, error) {
	switch {
	case len(pluginDirs) > 0:
		return sources.NewMulti(s.mirrors(pluginDirs)), nil
	case s.config.Implied:
		return s.implied(ctx)
	}
	var methods []sources.Method
	for _, m := range s.config.Methods {
		source, err := s.method(m)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", m.File, m.Line, err)
		}
		methods = append(methods, sources.Method{Source: source, Include: m.Include, Exclude: m.Exclude})
	}
	return sources.NewMulti(methods), nil
}

func (s *session) method(m cliconfig.Method) (sources.Source, error) {
	switch m.Kind {
	case cliconfig.Direct:
		return s.registry(), nil
	case cliconfig.FilesystemMirror:
		return fsmirror.New(m.Path, fsmirror.Options{Engine: s.config.Engine}), nil
	case cliconfig.NetworkMirror:
		return netmirror.New(s.client, m.URL, netmirror.Options{TrustAllHashes: m.TrustAllHashes})
	default:
		return unsupported{m}, nil
	}
}

func (s *session) registry() sources.Source {
	return registry.New(s.client, registry.Options{Engine: s.config.Engine, Services: s.config.Hosts})
}

func (s *session) mirrors(dirs []string) []sources.Method {
	var methods []sources.Method
	for _, dir := range dirs {
		mirror := fsmirror.New(absolute(s.dir, dir), fsmirror.Options{Engine: s.config.Engine})
		methods = append(methods, sources.Method{Source: mirror})
	}
	return methods
}

// implied is what there is to ask without a provider_installation block: the
// implied directories, and for providers that none of them holds, in whatever
// version, the origin registries.
func (s *session) implied(ctx context.Context) (sources.Source, error) {
	methods := s.mirrors(s.config.ImpliedDirs())
	direct := sources.Method{Source: s.registry()}
	for _, m := range methods {
		providers, err := m.Source.(*fsmirror.Mirror).Providers(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range providers {
			direct.Exclude = append(direct.Exclude, sources.Pattern{Host: string(p.Host), Namespace: p.Namespace, Type: p.Type})
		}
	}
	return sources.NewMulti(append(methods, direct)), nil
}

// errUnsupported matches the refusal of an installation method that is
// configured and would be needed, but that larder does not have yet.
var errUnsupported = errors.New("not supported yet")

// An unsupported source stands for such a method. It gives no answer, as one
// that let the search go on could take a package from the wrong place.
type unsupported struct{ method cliconfig.Method }

func (u unsupported) Versions(_ context.Context, p sources.Provider) (sources.Listing, error) {
	return sources.Listing{}, u.refuse(p)
}

func (u unsupported) Package(_ context.Context, id sources.PackageID) (sources.Package, error) {
	return sources.Package{}, u.refuse(id.Provider)
}

func (u unsupported) refuse(p sources.Provider) error {
	err := fmt.Errorf("%s:%d: installation method %s is %w", u.method.File, u.method.Line, u.method.Kind, errUnsupported)
	return sources.WithHint(&sources.ProviderError{Provider: p, Err: err},
		"give the method an exclude that matches %s, and add another method for it", p)
}

func (u unsupported) String() string { return string(u.method.Kind) + " " + u.method.Template }
