//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/smithy-go/aws-http-auth/credentials"
	"github.com/aws/smithy-go/aws-http-auth/sigv4"
	v4 "github.com/aws/smithy-go/aws-http-auth/v4"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A placed is the measurement of commands with a registry and a store, which are programs on this machine.
type placed struct {
	*bench
	registry *sourcetest.Running
	store    *sourcetest.S3
	env      []string
	rows     []row
}

// What is measured.
const (
	placedArchives   = 10
	placedArchive    = 90 * megabyte
	placedUploads    = 4     // at the same time, by the plain clients
	placedPackages   = 1_000 // again with nothing new
	placedMost       = 10_000
	placedVersions   = 10 // of each provider, for two platforms
	repositories     = "/${namespace}/${type}"
	placedBucketName = "bench"
)

// places measures pushing to and reading from an OCI registry and a bucket.
func (b *bench) places() string {
	p := &placed{bench: b, registry: sourcetest.NewRegistry(b, false), store: sourcetest.NewS3(b, true, placedBucketName)}
	p.env = append(b.environment(),
		"SSL_CERT_FILE="+p.registry.CAFile, "AWS_CA_BUNDLE="+p.store.CAFile, "AWS_ENDPOINT_URL_S3="+p.store.Endpoint,
		"AWS_ACCESS_KEY_ID="+p.store.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+p.store.SecretAccessKey)
	most := placedMost
	if b.short {
		most = placedPackages
	}
	p.large()
	p.install()
	p.small(placedPackages, true)
	p.small(most, false)
	return table(p.rows)
}

// large pushes large packages without signatures, next to clients that only upload them.
func (p *placed) large() {
	world := sourcetest.New(p)
	for i := range placedArchives {
		world.Add(fmt.Sprintf("registry.terraform.io/acme/large%d", i), "1.0.0", sourcetest.Release{Size: placedArchive})
	}
	mirror := filepath.Join(p.Dir, "large")
	p.index(mirror, world)
	archives := sourcetest.Must(filepath.Glob(filepath.Join(mirror, "*", "*", "*", "*.zip")))(p)
	size := fmt.Sprintf("%d × %d MB", placedArchives, placedArchive/megabyte)

	sums := map[string][32]byte{} // which the plain clients are given
	for _, name := range archives {
		sums[name] = sha256.Sum256(sourcetest.ReadFile(p, name))
	}

	p.against("push "+size+" to a registry", "oras-go, with a manifest for each archive", 1.2, func(round int) sample {
		return p.timed(func() error { return p.plainRegistry(fmt.Sprintf("plain%d", round), sums) })
	}, func(round int) sample {
		return p.run("mirror", "push", mirror, fmt.Sprintf("oci://%s/larder%d%s", p.registry.Host, round, repositories))
	})
	p.against("push "+size+" to a bucket", "only PUT requests of the archives", 1.2, func(int) sample {
		p.empty()
		return p.timed(func() error { return p.plainStore(sums) })
	}, func(int) sample {
		p.empty()
		return p.run("mirror", "push", mirror, "s3://"+placedBucketName+"/large")
	})
	p.empty()
	sourcetest.Check(p, os.RemoveAll(mirror))
}

// install installs providers of the size of an engine, next to tofu.
func (p *placed) install() {
	tofu, err := exec.LookPath("tofu")
	if err != nil {
		fmt.Println("tofu is not on PATH, so installing is not measured")
		return
	}
	types := []string{"one", "two", "three"}
	world := sourcetest.New(p)
	program := sourcetest.ReadFile(p, tofu)
	for _, typ := range types {
		var archive bytes.Buffer
		z := zip.NewWriter(&archive)
		w := sourcetest.Must(z.Create("terraform-provider-" + typ))(p)
		_, err := w.Write(append(slices.Clip(program), typ...))
		sourcetest.Check(p, errors.Join(err, z.Close()))
		world.Add("registry.terraform.io/acme/"+typ, "1.0.0", sourcetest.Release{Archive: archive.Bytes()})
	}
	mirror := filepath.Join(p.Dir, "programs")
	p.index(mirror, world)
	p.run("mirror", "push", mirror, "oci://"+p.registry.Host+"/programs"+repositories)
	config := filepath.Join(p.Dir, "oci.tfrc")
	sourcetest.Check(p, os.WriteFile(config, fmt.Appendf(nil, `provider_installation {
  oci_mirror {
    repository_template = %q
    include = ["registry.terraform.io/*/*"]
  }
}
`, p.registry.Host+"/programs"+repositories), 0o644))
	install := func(program string, args ...string) sample {
		dir := p.TempDir()
		defer os.RemoveAll(dir)
		p.rootModule(dir, types...)
		return p.exec(dir, append(slices.Clone(p.env), "HOME="+dir, "TF_CLI_CONFIG_FILE="+config), program, args...)
	}
	name := fmt.Sprintf("install %d providers of %d MB with oci_mirror", len(types), len(program)/megabyte)
	p.against(name, "tofu init", 0.5, func(int) sample { return install(tofu, "init", "-input=false") },
		func(int) sample { return install(p.larder, "install", "--engine", "tofu", "--quiet") })
}

// small pushes a number of tiny packages. If only again is set, it measures only pushing when nothing is new.
func (p *placed) small(packages int, again bool) {
	world := sourcetest.New(p)
	for i := range packages / placedVersions / len(two) {
		for v := range placedVersions {
			address := fmt.Sprintf("registry.terraform.io/acme/p%03d", i)
			world.Add(address, fmt.Sprintf("1.%d.0", v), sourcetest.Release{Platforms: two})
		}
	}
	name := thousands(packages) + " packages"
	mirror := filepath.Join(p.Dir, fmt.Sprint("small", packages))
	p.index(mirror, world)
	world.WriteEvidence(mirror)
	for _, at := range [][2]string{
		{"registry", fmt.Sprintf("oci://%s/small%d%s", p.registry.Host, packages, repositories)},
		{"bucket", fmt.Sprintf("s3://%s/small%d", placedBucketName, packages)},
	} {
		of, place := at[0], at[1]
		pushed := p.run("mirror", "push", mirror, place)
		var nothing []sample
		for range p.rounds {
			nothing = append(nothing, p.run("mirror", "push", mirror, place))
		}
		row := timing("push "+name+" to a "+of+" again", median(nothing))
		if again {
			row.wanted, row.missed = "under 1 s", row.larder >= 1
			p.rows = append(p.rows, row)
			continue
		}
		p.rows = append(p.rows, timing("push "+name+" to a "+of, pushed), row,
			timing("mirror list of a "+of+" with "+name, p.run("mirror", "list", place)),
			timing("mirror verify of a "+of+" with "+name, p.run("mirror", "verify", place)),
			timing("mirror diff of a "+of+" with "+name, p.run("mirror", "diff", mirror, place)))
	}
	sourcetest.Check(p, os.RemoveAll(mirror))
}

// run runs larder in an empty directory.
func (p *placed) run(args ...string) sample {
	return p.exec(p.Dir, p.env, p.larder, append(args, "--quiet", "--engine", "tofu")...)
}

func (p *placed) timed(do func() error) sample {
	start := time.Now()
	sourcetest.Check(p, do())
	return sample{time: time.Since(start)}
}

// empty removes the objects in the bucket.
func (p *placed) empty() {
	bucket := filepath.Join(p.store.Dir, placedBucketName)
	sourcetest.Check(p, errors.Join(os.RemoveAll(bucket), os.Mkdir(bucket, 0o755)))
}

// timing returns a row that is compared with nothing.
func timing(name string, s sample) row { return row{name: name, unit: "s", larder: s.time.Seconds()} }

// against measures larder next to others that do the same. It may take at most this many times as long.
func (p *placed) against(name, than string, most float64, others, larder func(round int) sample) {
	var theirs, ours []sample
	for round := range p.rounds {
		theirs, ours = append(theirs, others(round)), append(ours, larder(round))
	}
	r := timing(name, median(ours))
	r.than, r.other, r.wanted = than, median(theirs).time.Seconds(), fmt.Sprintf("at most × %g", most)
	r.missed = r.larder > most*r.other
	p.rows = append(p.rows, r)
}

// plainRegistry uploads files to a repository, each with a manifest and a tag, with the library of oras.
func (p *placed) plainRegistry(name string, sums map[string][32]byte) error {
	repository, err := remote.NewRepository(p.registry.Host + "/" + name)
	if err != nil {
		return err
	}
	repository.Client = &http.Client{Transport: p.registry.Transport()}
	return eachFile(sums, func(f *os.File, size int64, sum [32]byte) error {
		ctx := context.Background()
		layer := v1.Descriptor{MediaType: "archive/zip", Digest: digest.NewDigestFromBytes(digest.SHA256, sum[:]), Size: size}
		if err := repository.Blobs().Push(ctx, layer, f); err != nil {
			return err
		}
		manifest, err := oras.PackManifest(ctx, repository, oras.PackManifestVersion1_1,
			"application/vnd.opentofu.provider-target", oras.PackManifestOptions{Layers: []v1.Descriptor{layer}})
		if err != nil {
			return err
		}
		return repository.Tag(ctx, manifest, layer.Digest.Encoded())
	})
}

// plainStore uploads files as objects, each with one request.
func (p *placed) plainStore(sums map[string][32]byte) error {
	client := &http.Client{Transport: p.store.Transport()}
	return eachFile(sums, func(f *os.File, size int64, sum [32]byte) error {
		url := p.store.Endpoint + "/" + placedBucketName + "/plain/" + filepath.Base(f.Name())
		req, err := http.NewRequest(http.MethodPut, url, f)
		if err != nil {
			return err
		}
		req.ContentLength = size
		keys := credentials.Credentials{AccessKeyID: p.store.AccessKeyID, SecretAccessKey: p.store.SecretAccessKey}
		signed := sigv4.SignRequestInput{
			Request: req, PayloadHash: sum[:], Credentials: keys, Service: "s3", Region: "us-east-1",
		}
		err = sigv4.New().SignRequest(&signed, func(o *v4.SignerOptions) {
			o.DisableDoublePathEscape, o.AddPayloadHashHeader = true, true
		})
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, expect(resp))
	})
}

// eachFile calls a function for each file, for some at the same time.
func eachFile(sums map[string][32]byte, do func(f *os.File, size int64, sum [32]byte) error) error {
	var group errgroup.Group
	group.SetLimit(placedUploads)
	for name, sum := range sums {
		group.Go(func() error {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return err
			}
			return do(f, info.Size(), sum)
		})
	}
	return group.Wait()
}
