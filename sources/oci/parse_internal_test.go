package oci

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func document(header map[string]string, body string) *fetch.Document {
	at, _ := url.Parse("https://example.com/v2/acme/widget/blobs/uploads/")
	doc := &fetch.Document{URL: at, Header: http.Header{}, Body: []byte(body)}
	for name, value := range header {
		doc.Header.Set(name, value)
	}
	return doc
}

func TestArchiveLayer(t *testing.T) {
	const sum = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	zip := v1.Descriptor{MediaType: typeArchive, Digest: sum, Size: 2}
	with := func(edit func(*v1.Descriptor)) v1.Descriptor {
		d := zip
		edit(&d)
		return d
	}
	for name, test := range map[string]struct {
		kind   string
		layers []v1.Descriptor
		says   string
	}{
		"one":            {typeTarget, []v1.Descriptor{zip}, ""},
		"beside another": {typeTarget, []v1.Descriptor{{MediaType: "text/plain"}, zip}, ""},
		"other type":     {"x", []v1.Descriptor{zip}, `the manifest has the artifact type "x", and not ` + typeTarget},
		"none":           {typeTarget, nil, "the manifest has 0 layers of the media type archive/zip, and not one"},
		"two":            {typeTarget, []v1.Descriptor{zip, zip}, "the manifest has 2 layers of the media type archive/zip, and not one"},
		"others":         {typeTarget, []v1.Descriptor{{MediaType: "a"}, {MediaType: "b"}}, "the manifest has 0 layers of the media type archive/zip, and not one"},
		"digest":         {typeTarget, []v1.Descriptor{with(func(d *v1.Descriptor) { d.Digest = "sha256:0" })}, `the archive has the digest "sha256:0", which is not a SHA-256`},
		"size":           {typeTarget, []v1.Descriptor{with(func(d *v1.Descriptor) { d.Size = 0 })}, "the archive has the size 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := archiveLayer(v1.Manifest{ArtifactType: test.kind, Layers: test.layers})
			sourcetest.Expect(t, test.says == "" && err == nil || err != nil && test.says != "" && err.Error() == test.says, "error %v", err)
		})
	}
}

// Whatever a registry answers, what Larder reads from an index can be written again, and packages have checksums.
func FuzzManifests(f *testing.F) {
	f.Add(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","artifactType":"application/vnd.opentofu.provider","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.opentofu.provider-target","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2,"platform":{"os":"linux","architecture":"amd64"}},{"mediaType":"x","digest":"y"},{}]}`)
	f.Add(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.opentofu.provider-target","layers":[{"mediaType":"archive/zip","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		added := []v1.Descriptor{{ArtifactType: typeTarget, Digest: "sha256:x", Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}}
		if x, err := parseIndex(document(map[string]string{"Content-Type": v1.MediaTypeImageIndex}, body)); err == nil {
			for _, p := range x.platforms() {
				_, _ = x.entry(p)
			}
			now, _ := x.changed(sources.Provider{Host: "example.com", Namespace: "acme", Type: "widget"}, added, nil)
			sourcetest.Expect(t, len(now.Manifests) > 0, "nothing left")
			sourcetest.Must(json.Marshal(now))(t)
		}
		var m v1.Manifest
		if json.Unmarshal([]byte(body), &m) == nil {
			if layer, err := archiveLayer(m); err == nil {
				sourcetest.Expect(t, layer.Size > 0 && len(layer.Digest.Encoded()) == 64, "layer %+v", layer)
			}
		}
	})
}

// The domain of a registry is the one above it, unless anyone can have names there.
func TestInDomain(t *testing.T) {
	for _, tt := range []struct {
		registry, in, outside string // hosts
	}{
		{"registry-1.docker.io", "auth.docker.io docker.io registry-1.docker.io", "io other.io evildocker.io docker.io.other.test"},
		{"registry.gitlab.example", "gitlab.example auth.gitlab.example", "example other.example"},
		{"ghcr.io", "ghcr.io", "io other.io auth.ghcr.io"},
		{"acme.github.io", "acme.github.io", "github.io other.github.io"},
		{"acme.co.uk", "acme.co.uk", "co.uk other.co.uk"},
		{"ec2-1.compute-1.amazonaws.com", "ec2-1.compute-1.amazonaws.com", "ec2-2.compute-1.amazonaws.com compute-1.amazonaws.com"},
		{"registry.corp", "registry.corp", "corp auth.corp"},
		{"localhost", "localhost", "other"},
		{"192.0.2.1", "192.0.2.1", "192.0.2.2 0.2.1 9.0.2.1"},
		{"::1", "::1", "::2"},
	} {
		for _, host := range strings.Fields(tt.in) {
			sourcetest.Expect(t, inDomain(tt.registry, host), "%s is outside of %s", host, tt.registry)
		}
		for _, host := range strings.Fields(tt.outside) {
			sourcetest.Expect(t, !inDomain(tt.registry, host), "%s is in the domain of %s", host, tt.registry)
		}
	}
}
