package oci

import (
	"errors"
	"fmt"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/larder-cli/larder/sources"
)

// A Repository is a repository in an OCI registry. Without a name, it stands for all repositories there.
type Repository struct {
	Registry string // host, and the port unless that is 443
	Name     string // segments with slashes between them, in lower case
}

// ParseRepository parses HOST or HOST/NAME. It returns an error if a tag or a digest follows.
func ParseRepository(text string) (Repository, error) {
	host, name, named := strings.Cut(text, "/")
	ref := registry.Reference{Registry: host, Repository: name}
	switch {
	case strings.Contains(text, "://"):
		return Repository{}, sources.WithHint(fmt.Errorf("%q is a URL", text), "leave out the scheme")
	case ref.ValidateRegistry() != nil || strings.HasSuffix(host, ":"):
		return Repository{}, fmt.Errorf("%q is not the address of a registry", host)
	case named && strings.ContainsAny(name, ":@"):
		err := fmt.Errorf("%q has a tag, a digest or a port, which the name of a repository can't contain", name)
		return Repository{}, err
	case named && ref.ValidateRepository() != nil:
		return Repository{}, sources.WithHint(fmt.Errorf("%q is not the name of a repository", name),
			"write lowercase letters a-z and digits, with . _ - or / between them")
	}
	return Repository{host, name}, nil
}

func (r Repository) String() string {
	if r.Name == "" {
		return r.Registry
	}
	return r.Registry + "/" + r.Name
}

// Covers returns how many segments of the name of another repository match, if r, a registry or the beginning of
// a path there, includes that repository.
func (r Repository) Covers(other Repository) (segments int, ok bool) {
	if r.Registry != other.Registry {
		return 0, false
	}
	if r.Name == "" {
		return 0, true
	}
	return strings.Count(r.Name, "/") + 1, strings.HasPrefix(other.Name+"/", r.Name+"/")
}

// at returns the URL of a path in the API of the repository.
func (r Repository) at(path string) string { return r.root(r.Name + "/" + path) }

// root returns the URL of a path in the API of the registry.
func (r Repository) root(path string) string {
	return "https://" + registry.Reference{Registry: r.Registry}.Host() + "/v2/" + path
}

// tag returns the tag of a version. Tags can't contain a plus sign.
func tag(v sources.Version) string { return strings.ReplaceAll(v.String(), "+", "_") }

// versionOf returns the version that a tag stands for.
func versionOf(tag string) (sources.Version, error) {
	v, err := sources.ParseVersion(strings.ReplaceAll(tag, "_", "+"))
	if err == nil && strings.ContainsAny(tag, "+") {
		err = errors.New("a tag can't contain a plus sign")
	}
	return v, err
}
