package sourcetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/larder-cli/larder/sources"
)

// Run tests that a source fulfils the contract of [sources.Source]. Build
// returns a source for the world's providers, and a function that makes the
// source fail. That function is called before the first query.
func Run(t *testing.T, build func(t *testing.T, w *World) (source sources.Source, outage func())) {
	for name, test := range map[string]func(*contract){
		"versions are complete":            (*contract).versionsAreComplete,
		"packages have the right location": (*contract).packagesLeadToTheirBytes,
		"unknown provider is not found":    (*contract).unknownProviderIsNotFound,
		"missing platform is an answer":    (*contract).missingPlatformIsAnAnswer,
		"outage is not an answer":          (*contract).outageIsNoAnswer,
		"cancellation is not an answer":    (*contract).cancellationIsNoAnswer,
		"queries may be concurrent":        (*contract).questionsAllAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			w := New(t)
			w.Add("registry.terraform.io/acme/widget", "1.2.0")
			w.Add("registry.terraform.io/acme/widget", "1.10.0", Release{Platforms: []string{"linux_amd64", "darwin_arm64"}})
			w.Add("registry.terraform.io/acme/widget", "2.0.0-beta.1", Release{Platforms: []string{"linux_amd64"}})
			w.Add("registry.terraform.io/acme/gadget", "0.1.0")
			w.Add("example.test/acme/widget", "3.0.0")
			source, outage := build(t, w)
			test(&contract{t, w, source, outage})
		})
	}
}

// A contract is the test of one source.
type contract struct {
	*testing.T
	world  *World
	source sources.Source
	outage func()
}

func (c *contract) versionsAreComplete() {
	for provider, want := range map[string][]string{
		"registry.terraform.io/acme/widget": {"1.2.0", "1.10.0", "2.0.0-beta.1"},
		"registry.terraform.io/acme/gadget": {"0.1.0"},
		"example.test/acme/widget":          {"3.0.0"},
	} {
		got, err := c.versions(provider)
		Expect(c, err == nil, "versions of %s: %v", provider, err)
		Equal(c, fmt.Sprint(got), fmt.Sprint(want), "versions of", provider)
	}
}

// versions returns the versions that the source lists, oldest first.
func (c *contract) versions(provider string) ([]sources.Version, error) {
	listing, err := c.source.Versions(c.Context(), Address(c, provider))
	slices.SortFunc(listing.Versions, sources.Version.Compare)
	return listing.Versions, err
}

func (c *contract) packagesLeadToTheirBytes() {
	for _, id := range []sources.PackageID{
		PackageID(c, "registry.terraform.io/acme/widget", "1.10.0", "darwin_arm64"),
		PackageID(c, "example.test/acme/widget", "3.0.0", "linux_amd64"),
	} {
		p, err := c.source.Package(c.Context(), id)
		if err != nil {
			c.Errorf("%s: %v", id, err)
			continue
		}
		Equal(c, p.ID, id, "answered with")
		Expect(c, p.Source != "" && p.Kind != "", "%s: source %q of kind %q, want both", id, p.Source, p.Kind)
		zh, h1 := c.world.Hashes(id.Path())
		stated := slices.Contains(p.Hashes, sources.Hash(zh)) || slices.Contains(p.Hashes, sources.Hash(h1))
		Expect(c, stated || len(p.Hashes) == 0, "%s: hashes %v, want %s or %s", id, p.Hashes, zh, h1)
		got, err := c.hash(p.Location)
		ok := err == nil && (got == zh || got == h1)
		Expect(c, ok, "%s: at %+v is %s (%v), want %s or %s", id, p.Location, got, err, zh, h1)
	}
}

// hash returns the zh: hash of the archive, or the h1: hash of the directory, at a location.
func (c *contract) hash(at sources.Location) (string, error) {
	var data []byte
	var err error
	switch {
	case at.URL+at.Archive+at.Dir != cmp.Or(at.URL, at.Archive, at.Dir):
		return "", errors.New("more than one place")
	case at.Dir != "":
		return dirhash.HashDir(at.Dir, "", dirhash.Hash1)
	case at.URL != "":
		resp := Must(c.world.Client().Get(at.URL))(c)
		defer resp.Body.Close()
		data, err = io.ReadAll(resp.Body)
	default:
		data, err = os.ReadFile(at.Archive)
	}
	return fmt.Sprintf("zh:%x", sha256.Sum256(data)), err
}

func (c *contract) unknownProviderIsNotFound() {
	for _, provider := range []string{"registry.terraform.io/acme/unknown", "registry.terraform.io/unknown/widget"} {
		_, err := c.versions(provider)
		ErrorIs(c, err, sources.ErrNotFound, "versions of", provider)
	}
}

func (c *contract) missingPlatformIsAnAnswer() {
	id := PackageID(c, "registry.terraform.io/acme/widget", "1.10.0", "windows_arm64")
	_, err := c.source.Package(c.Context(), id)
	ErrorIs(c, err, sources.ErrNoPlatform, id)
}

func (c *contract) outageIsNoAnswer() {
	c.outage()
	_, err := c.versions("registry.terraform.io/acme/widget")
	id := PackageID(c, "registry.terraform.io/acme/widget", "1.2.0", "linux_amd64")
	_, packageErr := c.source.Package(c.Context(), id)
	for _, err := range []error{err, packageErr} {
		refused := err != nil && !errors.Is(err, sources.ErrNotFound)
		Expect(c, refused, "got %v during an outage, want an error that is no answer", err)
	}
}

func (c *contract) cancellationIsNoAnswer() {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	_, err := c.source.Versions(ctx, Address(c, "registry.terraform.io/acme/widget"))
	Expect(c, !errors.Is(err, sources.ErrNotFound), "canceled: got %v, want an error that is no answer", err)
}

func (c *contract) questionsAllAtOnce() {
	id := PackageID(c, "registry.terraform.io/acme/widget", "1.2.0", "linux_amd64")
	want, err := c.source.Package(c.Context(), id)
	Check(c, err)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			versions, err := c.versions("registry.terraform.io/acme/widget")
			Expect(c, err == nil && len(versions) == 3, "versions: got %v, %v, want three", versions, err)
		})
		group.Go(func() {
			got, err := c.source.Package(c.Context(), id)
			same := err == nil && got.Location == want.Location
			Expect(c, same, "package: got %+v, %v, want %+v", got.Location, err, want.Location)
		})
	}
	group.Wait()
}
