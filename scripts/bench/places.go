//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"
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
	rows     []placedRow
}

// A placedRow is a measurement, and what it is compared with. That is empty if it isn't compared.
type placedRow struct {
	name   string
	larder sample
	than   string
	other  time.Duration
	wanted string
	missed bool
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
func places(args []string) {
	flags := flag.NewFlagSet("bench places", flag.ExitOnError)
	document := flags.String("document", "", "the document whose generated part to replace, such as docs/performance.md")
	short := flags.Bool("short", false, "measure once and with fewer packages, to see whether it works")
	_ = flags.Parse(args) // it ends the program
	idle := checkIdle(*document, *short)
	b := &bench{rounds: 3, scale: 1, worlds: map[stock]*sourcetest.World{}}
	b.prepare("", "")
	defer b.End()
	p := &placed{bench: b, registry: sourcetest.NewRegistry(b, sourcetest.Distribution, false), store: sourcetest.NewS3(b, placedBucketName)}
	p.env = []string{
		"HOME=" + filepath.Join(b.dir, "home"), "PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + os.DevNull,
		"SSL_CERT_FILE=" + p.registry.CAFile, "AWS_CA_BUNDLE=" + p.store.CAFile, "AWS_ENDPOINT_URL_S3=" + p.store.Endpoint,
		"AWS_ACCESS_KEY_ID=" + p.store.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + p.store.SecretAccessKey,
	}
	most := placedMost
	if *short {
		p.rounds, most = 1, placedPackages
	}
	p.large()
	p.install()
	p.small(placedPackages, true)
	p.small(most, false)
	text := p.table()
	fmt.Print(text)
	if *document != "" {
		b.must(replaceText(*document, " places", idle, text))
	}
}

// large pushes large packages without signatures, next to clients that only upload them.
func (p *placed) large() {
	world := sourcetest.New(p)
	for i := range placedArchives {
		world.Add(fmt.Sprintf("registry.terraform.io/acme/large%d", i), "1.0.0", sourcetest.Release{Size: placedArchive})
	}
	mirror := p.mirror("large", world)
	archives, err := filepath.Glob(filepath.Join(mirror, "*", "*", "*", "*.zip"))
	p.must(err)
	size := fmt.Sprintf("%d × %d MB", placedArchives, placedArchive/megabyte)

	sums := map[string][32]byte{} // which the plain clients are given
	for _, name := range archives {
		sums[name] = sha256.Sum256(sourcetest.ReadFile(p, name))
	}

	var larder, plain []sample
	for round := range p.rounds {
		plain = append(plain, p.timed(func() { p.must(p.plainRegistry(fmt.Sprintf("plain%d", round), sums)) }))
		larder = append(larder, p.larderRun("mirror", "push", mirror, "oci://"+p.registry.Host+fmt.Sprintf("/larder%d", round)+repositories))
	}
	p.add("push "+size+" to a registry", median(larder), "oras-go, with a manifest for each archive", median(plain).time, 1.2)
	larder, plain = nil, nil
	for range p.rounds {
		plain = append(plain, p.timed(func() { p.must(p.plainStore(sums)) }))
		p.empty()
		larder = append(larder, p.larderRun("mirror", "push", mirror, "s3://"+placedBucketName+"/large"))
		p.empty()
	}
	p.add("push "+size+" to a bucket", median(larder), "only PUT requests of the archives", median(plain).time, 1.2)

	p.must(os.RemoveAll(mirror))
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
	size := 0
	for _, typ := range types {
		program := sourcetest.ReadFile(p, tofu)
		size = len(program) / megabyte
		var archive bytes.Buffer
		z := zip.NewWriter(&archive)
		w, err := z.Create("terraform-provider-" + typ)
		p.must(err)
		_, err = w.Write(append(program, typ...))
		p.must(errors.Join(err, z.Close()))
		world.Add("registry.terraform.io/acme/"+typ, "1.0.0", sourcetest.Release{Archive: archive.Bytes()})
	}
	mirror := p.mirror("programs", world)
	p.larderRun("mirror", "push", mirror, "oci://"+p.registry.Host+"/programs"+repositories)
	config := filepath.Join(p.dir, "oci.tfrc")
	p.must(os.WriteFile(config, fmt.Appendf(nil, "provider_installation {\n  oci_mirror {\n    repository_template = %q\n    include = [\"registry.terraform.io/*/*\"]\n  }\n}\n",
		p.registry.Host+"/programs"+repositories), 0o644))
	install := func(program string, args ...string) sample {
		dir := p.TempDir()
		defer os.RemoveAll(dir)
		p.must(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(sourcetest.Configuration(types...)), 0o644))
		return p.exec(dir, append(slices.Clone(p.env), "HOME="+dir, "TF_CLI_CONFIG_FILE="+config), program, args...)
	}
	var larder, byTofu []sample
	for range p.rounds {
		byTofu = append(byTofu, install(tofu, "init", "-input=false"))
		larder = append(larder, install(p.larder, "install", "--engine", "tofu", "--quiet"))
	}
	p.add(fmt.Sprintf("install %d providers of %d MB with oci_mirror", len(types), size), median(larder), "tofu init", median(byTofu).time, 0.5)
}

// mirror writes a mirror with all packages of a world.
func (p *placed) mirror(name string, world *sourcetest.World) string {
	dir := filepath.Join(p.dir, name)
	world.WritePacked(dir)
	p.exec(p.dir, p.env, p.larder, "mirror", "index", dir, "--quiet")
	return dir
}

// small pushes a number of tiny packages. If only again is set, it measures only pushing when nothing is new.
func (p *placed) small(packages int, again bool) {
	world := sourcetest.New(p)
	for i := range packages / placedVersions / len(two) {
		for v := range placedVersions {
			world.Add(fmt.Sprintf("registry.terraform.io/acme/p%03d", i), fmt.Sprintf("1.%d.0", v), sourcetest.Release{Platforms: two})
		}
	}
	name := thousands(packages) + " packages"
	mirror := p.mirror(fmt.Sprint("small", packages), world)
	world.WriteEvidence(mirror)
	places := map[string]string{"registry": fmt.Sprintf("oci://%s/small%d%s", p.registry.Host, packages, repositories), "bucket": fmt.Sprintf("s3://%s/small%d", placedBucketName, packages)}
	for _, of := range []string{"registry", "bucket"} {
		place := places[of]
		pushed := p.larderRun("mirror", "push", mirror, place)
		var nothing []sample
		for range p.rounds {
			nothing = append(nothing, p.larderRun("mirror", "push", mirror, place))
		}
		row := placedRow{name: "push " + name + " to a " + of + " again", larder: median(nothing)}
		if again {
			row.wanted, row.missed = "under 1 s", row.larder.time >= time.Second
			p.rows = append(p.rows, row)
			continue
		}
		p.rows = append(p.rows, placedRow{name: "push " + name + " to a " + of, larder: pushed}, row,
			placedRow{name: "mirror list of a " + of + " with " + name, larder: p.larderRun("mirror", "list", place)},
			placedRow{name: "mirror verify of a " + of + " with " + name, larder: p.larderRun("mirror", "verify", place)},
			placedRow{name: "mirror diff of a " + of + " with " + name, larder: p.larderRun("mirror", "diff", mirror, place)})
	}
	p.must(os.RemoveAll(mirror))
}

// larderRun runs larder in an empty directory.
func (p *placed) larderRun(args ...string) sample {
	return p.exec(p.dir, p.env, p.larder, append(args, "--quiet", "--engine", "tofu")...)
}

func (p *placed) timed(do func()) sample {
	start := time.Now()
	do()
	return sample{time: time.Since(start)}
}

// empty removes the objects in the bucket.
func (p *placed) empty() {
	dir := filepath.Join(p.store.Dir, placedBucketName)
	entries, err := os.ReadDir(dir)
	p.must(err)
	for _, e := range entries {
		p.must(os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

func (p *placed) add(name string, larder sample, than string, other time.Duration, most float64) {
	p.rows = append(p.rows, placedRow{name, larder, than, other, fmt.Sprintf("at most × %g", most), larder.time.Seconds() > most*other.Seconds()})
}

// table returns the results as a table.
func (p *placed) table() string {
	text := "| what | larder | compared with | larder's time / theirs | wanted |\n| --- | ---: | --- | ---: | --- |\n"
	for _, r := range p.rows {
		than, ratio := "", ""
		if r.than != "" {
			than, ratio = r.than+": "+seconds(r.other.Seconds()), fmt.Sprintf("× %.2f", r.larder.time.Seconds()/r.other.Seconds())
		}
		if r.missed {
			r.wanted += " (missed)"
		}
		text += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.name, seconds(r.larder.time.Seconds()), than, ratio, r.wanted)
	}
	return text + "\n"
}

// client returns a client that trusts an authority.
func (p *placed) client(authority string) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(sourcetest.ReadFile(p, authority))
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: placedUploads}}
}

// plainRegistry uploads files to a repository, each with a manifest and a tag, with the library of oras.
func (p *placed) plainRegistry(name string, sums map[string][32]byte) error {
	repository, err := remote.NewRepository(p.registry.Host + "/" + name)
	if err != nil {
		return err
	}
	repository.Client = p.client(p.registry.CAFile)
	return eachFile(sums, func(f *os.File, size int64, sum [32]byte) error {
		ctx := context.Background()
		layer := v1.Descriptor{MediaType: "archive/zip", Digest: digest.NewDigestFromBytes(digest.SHA256, sum[:]), Size: size}
		if err := repository.Blobs().Push(ctx, layer, f); err != nil {
			return err
		}
		manifest, err := oras.PackManifest(ctx, repository, oras.PackManifestVersion1_1, "application/vnd.opentofu.provider-target", oras.PackManifestOptions{Layers: []v1.Descriptor{layer}})
		if err != nil {
			return err
		}
		return repository.Tag(ctx, manifest, layer.Digest.Encoded())
	})
}

// plainStore uploads files as objects, each with one request.
func (p *placed) plainStore(sums map[string][32]byte) error {
	client := p.client(p.store.CAFile)
	return eachFile(sums, func(f *os.File, size int64, sum [32]byte) error {
		req, err := http.NewRequest(http.MethodPut, p.store.Endpoint+"/"+placedBucketName+"/plain/"+filepath.Base(f.Name()), f)
		if err != nil {
			return err
		}
		req.ContentLength = size
		req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
		resp, err := client.Do(signer.SignV4(*req, p.store.AccessKeyID, p.store.SecretAccessKey, "", "us-east-1"))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("PUT: %s", resp.Status)
		}
		return err
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
