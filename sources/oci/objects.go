package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// typeObject is the artifact type of the manifest of an object.
const typeObject = "application/vnd.larder.object"

// Objects are objects in a repository: each is the only layer of a manifest, whose tag stands for its name.
type Objects struct {
	m  *Mirror
	in Repository
}

// NewObjects returns the objects in a repository.
func NewObjects(client *fetch.Client, in Repository, access Access) *Objects {
	m := New(client, Template{}, access)
	m.prepare(in.Registry)
	return &Objects{m, in}
}

func (o *Objects) String() string { return "oci://" + o.in.String() }

var validTag = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// tagOf returns the tag for a name. If the name has characters or a length that tags can't have, it ends in a hash.
func tagOf(name string) string {
	if tag := strings.Replace(name, "/", "-", 1); validTag.MatchString(tag) {
		return tag
	}
	first, _, _ := strings.Cut(name, "/")
	sum := sha256.Sum256([]byte(name))
	return first + "-" + hex.EncodeToString(sum[:])
}

// layer returns the layer of an object.
func (o *Objects) layer(ctx context.Context, name string) (d v1.Descriptor, err error) {
	doc, err := o.m.client.Document(ctx, fetch.Request{URL: o.in.at("manifests/" + tagOf(name)), Accept: v1.MediaTypeImageManifest, Limit: maxManifest, SameHost: true})
	if err != nil {
		return d, absentRepository(fetch.Absent(err))
	}
	var manifest v1.Manifest
	if err := decode(doc, &manifest); err != nil {
		return d, doc.Wrap(err)
	}
	if manifest.ArtifactType != typeObject || len(manifest.Layers) != 1 || manifest.Layers[0].Digest.Validate() != nil {
		return d, doc.Wrap(fmt.Errorf("the tag %s is not one of Larder's", tagOf(name)))
	}
	return manifest.Layers[0], nil
}

// Get returns the contents of a small object. The error matches [sources.ErrNotFound] if there is none.
func (o *Objects) Get(ctx context.Context, name string) ([]byte, error) {
	d, err := o.layer(ctx, name)
	if err != nil {
		return nil, err
	}
	return o.m.small(ctx, o.in, d)
}

// Has reports whether there is an object.
func (o *Objects) Has(ctx context.Context, name string) (bool, error) {
	_, err := o.m.client.Do(ctx, fetch.Write{Method: http.MethodHead, URL: o.in.at("manifests/" + tagOf(name)), Header: http.Header{"Accept": {v1.MediaTypeImageManifest}}})
	if errors.Is(fetch.Absent(err), sources.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Put writes a small object, in place of any other.
func (o *Objects) Put(ctx context.Context, name string, data []byte) error {
	return o.Upload(ctx, name, bytes.NewReader(data), int64(len(data)), sha256.Sum256(data), nil)
}

// Upload writes an object with this size in bytes and SHA-256, in place of any other.
func (o *Objects) Upload(ctx context.Context, name string, from io.ReaderAt, size int64, sum [32]byte, sent func(int64)) error {
	d := v1.Descriptor{
		MediaType: "application/octet-stream", Digest: digest.NewDigestFromBytes(digest.SHA256, sum[:]), Size: size,
		Annotations: map[string]string{v1.AnnotationTitle: name},
	}
	if err := o.m.pushBlob(ctx, o.in, d, from, sent); err != nil {
		return err
	}
	if err := o.m.pushEmpty(ctx, o.in); err != nil {
		return err
	}
	manifest := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: typeObject, Config: v1.DescriptorEmptyJSON, Layers: []v1.Descriptor{d}}
	manifest.SchemaVersion = 2
	data, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	_, _, err = o.m.pushManifest(ctx, o.in, v1.MediaTypeImageManifest, data, tagOf(name))
	return err
}

// Locate returns the URL of an object for a download. The error matches [sources.ErrNotFound] if there is none.
func (o *Objects) Locate(ctx context.Context, name string) (string, error) {
	d, err := o.layer(ctx, name)
	if err != nil {
		return "", err
	}
	return o.in.at("blobs/" + d.Digest.String()), nil
}
