package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	layers "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group in the image. It has the number that images without a shell usually have.
const user = 65532

// image writes the layout of an image with a variant for each of archives, ARCH=DIR. DIR has the
// contents of the archive for Linux.
func image(file, version, commit string, archives []string, at time.Time) error {
	labels := map[string]string{
		"org.opencontainers.image.title":    "larder",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.revision": commit,
		"org.opencontainers.image.created":  at.Format(time.RFC3339),
		"org.opencontainers.image.source":   "https://github.com/larder-cli/larder",
		"org.opencontainers.image.licenses": "MPL-2.0",
	}
	index := mutate.IndexMediaType(mutate.Annotations(empty.Index, labels).(v1.ImageIndex), types.OCIImageIndex)
	for _, archive := range archives {
		arch, contents, _ := strings.Cut(archive, "=")
		img, err := variant(arch, contents, labels, at)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "larder-image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// The layout has one image, with variants. A layout that lists the variants themselves would have
	// two images of one name.
	to, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = to.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
	}
	if err != nil {
		return err
	}
	return writeFile(file, func(w io.Writer) error { return archive(w, file, os.DirFS(dir), at) })
}

// variant returns the image for one architecture.
func variant(arch, contents string, labels map[string]string, at time.Time) (v1.Image, error) {
	files, err := root(contents, at)
	if err != nil {
		return nil, err
	}
	layer, err := layers.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, layers.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "scripts/release"},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: at}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/larder"},
		Env:        []string{"PATH=/usr/bin", "HOME=/home/larder"},
		User:       fmt.Sprintf("%d:%[1]d", user),
		WorkingDir: "/home/larder",
		Labels:     labels,
	}
	return mutate.ConfigFile(img, config)
}

// root returns the files of an image, as a tar file.
func root(contents string, at time.Time) ([]byte, error) {
	larder, err := os.ReadFile(filepath.Join(contents, "larder"))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(contents, "LICENSE"))
	if err != nil {
		return nil, err
	}
	third := os.DirFS(filepath.Join(contents, "licenses"))
	var b bytes.Buffer
	t := tarball{tar.NewWriter(&b), at, map[string]bool{".": true}}
	err = errors.Join(
		t.add("etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nlarder:x:%d:\n", user)),
		t.add("etc/passwd", 0o644, 0, fmt.Appendf(nil,
			"root:x:0:0:root:/:/nonexistent\nlarder:x:%d:%[1]d:larder:/home/larder:/nonexistent\n", user)),
		t.add("etc/ssl/certs/ca-certificates.crt", 0o644, 0, certificates()),
		t.add("home/larder/", 0o755, user, nil),
		t.add("tmp/", 0o1777, 0, nil),
		t.add("usr/bin/larder", 0o755, 0, larder),
		t.add("usr/share/licenses/larder/LICENSE", 0o644, 0, license),
		t.addAll("usr/share/licenses/larder/third-party/", third),
		t.Close(), // which writes the end of the tar file
	)
	return b.Bytes(), err
}

// certificates returns Mozilla's root certificates, as PEM. It leaves out those that Mozilla trusts
// with a condition, since a PEM file can't contain the condition.
func certificates() []byte {
	var all []*pem.Block
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			all = append(all, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})
		}
	}
	slices.SortFunc(all, func(a, b *pem.Block) int { return bytes.Compare(a.Bytes, b.Bytes) })
	var b bytes.Buffer
	for _, block := range all {
		b.Write(pem.EncodeToMemory(block))
	}
	return b.Bytes()
}
