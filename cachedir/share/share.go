// Package share keeps packages of plugin caches in a place that many machines reach, such as a bucket or an OCI repository. Each package
// is one object, named by its contents, so a machine stores and fetches only what the place or its cache lacks.
//
// Nothing that it reads is verified: the caller verifies that the contents of a package match their hash, and decides whether to
// accept the other claims.
//
// # Layout
//
//	contents/HEX                                    an export of one package (see package export), compressed with zstd
//	packages/HOST/NAMESPACE/TYPE/VERSION/OS_ARCH    JSON with the contents that the package has, the newest first
//	keys/KEY                                        JSON with the packages of a cache key
//
// HEX is the h1: hash of the contents, in hexadecimal. Objects are only added, and documents replaced. A place that removes old objects loses
// nothing but time.
package share

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-cli/larder/cachedir/export"
	"github.com/larder-cli/larder/sources"
)

// Objects are the objects of a place.
type Objects interface {
	String() string

	// Get returns a document. The error matches [sources.ErrNotFound] if there is none.
	Get(ctx context.Context, name string) ([]byte, error)

	// Put writes a document, in place of any other.
	Put(ctx context.Context, name string, data []byte) error

	// Has reports whether there is an object.
	Has(ctx context.Context, name string) (bool, error)

	// Upload writes an object with this size in bytes and SHA-256.
	Upload(ctx context.Context, name string, from io.ReaderAt, size int64, sum [32]byte, sent func(bytes int64)) error

	// Locate returns the URL of an object for a download. The error matches [sources.ErrNotFound] if there is none.
	Locate(ctx context.Context, name string) (url string, err error)
}

// format is the number of the format of the documents.
const format = 1

// maxKnown is how many different contents of a package are listed. There are several only if it was republished.
const maxKnown = 4

// A document lists packages.
type document struct {
	Format   int      `json:"format"`
	Packages []packed `json:"packages"`
}

type packed struct {
	Provider string       `json:"provider"`
	Version  string       `json:"version"`
	Platform string       `json:"platform"`
	H1       sources.Hash `json:"h1"`
}

// A Package is a package in a place.
type Package struct {
	ID sources.PackageID
	H1 sources.Hash // of its contents, as the place states it
}

// Object returns the name of the object with the contents of the package.
func (p Package) Object() string {
	name, _ := contentsOf(p.H1) // packages that are read have a valid hash
	return name
}

// contentsOf returns the name of the object with contents.
func contentsOf(h1 sources.Hash) (string, error) {
	sum, err := h1.Sum(sources.H1)
	return "contents/" + hex.EncodeToString(sum[:]), err
}

func packageOf(id sources.PackageID) string { return "packages/" + id.Path() }

func keyOf(key string) string { return "keys/" + key }

// Key returns the packages of a cache key. The error matches [sources.ErrNotFound] if none were stored for it.
func Key(ctx context.Context, in Objects, key string) ([]Package, error) {
	return read(ctx, in, keyOf(key))
}

// Find returns the packages with this ID, the newest first: several if the package was republished. The error matches
// [sources.ErrNotFound] if there is none.
func Find(ctx context.Context, in Objects, id sources.PackageID) ([]Package, error) {
	all, err := read(ctx, in, packageOf(id))
	return slices.DeleteFunc(all, func(p Package) bool { return p.ID != id }), err
}

func read(ctx context.Context, in Objects, name string) (all []Package, err error) {
	data, err := in.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", in, name, err)
	}
	if doc.Format != format {
		return nil, sources.WithHint(fmt.Errorf("%s/%s has the format %d", in, name, doc.Format), "use the version of larder that has written it, or another place")
	}
	for _, p := range doc.Packages {
		id, err := sources.ParsePackageID(p.Provider, p.Version, p.Platform)
		if err == nil {
			_, err = contentsOf(p.H1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %q %q %q: %w", in, name, p.Provider, p.Version, p.Platform, err)
		}
		all = append(all, Package{id, p.H1})
	}
	return all, nil
}

func write(ctx context.Context, in Objects, name string, packages []Package) error {
	doc := document{Format: format}
	for _, p := range packages {
		doc.Packages = append(doc.Packages, packed{p.ID.Provider.String(), p.ID.Version.String(), p.ID.Platform.String(), p.H1})
	}
	data, err := sources.JSON(doc)
	if err != nil {
		return err
	}
	return in.Put(ctx, name, data)
}

// Has reports whether a place has the contents of a package.
func Has(ctx context.Context, in Objects, h1 sources.Hash) (bool, error) {
	name, err := contentsOf(h1)
	if err != nil {
		return false, err
	}
	return in.Has(ctx, name)
}

// Locate returns the URL of the contents of a package. The error matches [sources.ErrNotFound] if the place doesn't have them any more.
func Locate(ctx context.Context, in Objects, p Package) (string, error) {
	name, err := contentsOf(p.H1)
	if err != nil {
		return "", err
	}
	return in.Locate(ctx, name)
}

// Pack writes the object with a package.
func Pack(ctx context.Context, w io.Writer, s sources.Stored) error {
	out, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return err
	}
	return errors.Join(export.Write(ctx, out, []sources.Stored{s}), out.Close())
}

// maxWindow limits the memory for unpacking, in bytes.
const maxWindow = 64 << 20

// Unpack reads the object with a package. The caller calls done when it has read the export.
func Unpack(r io.Reader) (_ *export.Reader, done func(), err error) {
	in, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, nil, err
	}
	e, err := export.NewReader(in)
	if err != nil {
		in.Close()
		return nil, nil, err
	}
	return e, in.Close, nil
}

// Store writes the contents of a package from a file that Pack has written, and lists it.
func Store(ctx context.Context, in Objects, p Package, from io.ReaderAt, size int64, sum [32]byte, sent func(int64)) error {
	name, err := contentsOf(p.H1)
	if err != nil {
		return err
	}
	return in.Upload(ctx, name, from, size, sum, sent)
}

// List adds a package, whose contents are there, to those that Find returns.
func List(ctx context.Context, in Objects, p Package) error {
	known, err := Find(ctx, in, p.ID)
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		return err
	}
	if len(known) > 0 && known[0] == p {
		return nil
	}
	known = slices.Insert(slices.DeleteFunc(known, func(other Package) bool { return other == p }), 0, p)
	return write(ctx, in, packageOf(p.ID), known[:min(len(known), maxKnown)])
}

// ListKey makes Key return these packages for a cache key.
func ListKey(ctx context.Context, in Objects, key string, packages []Package) error {
	return write(ctx, in, keyOf(key), packages)
}
