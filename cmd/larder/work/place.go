package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/oci"
)

// The schemes of the places that aren't directories.
const (
	ociScheme    = "oci://"
	bucketScheme = "s3://"
)

// isPlace reports whether an argument is a URL, and not a path. It includes http:// so that the error is about the
// scheme, and not about a missing directory.
func isPlace(typed string) bool {
	scheme, _, ok := strings.Cut(typed, "://")
	return ok && (scheme == "oci" || scheme == "s3" || scheme == "https" || scheme == "http")
}

// ociMirror returns the mirror for a template in OCI registries.
func (m *rootModule) ociMirror(template oci.Template, push bool) *oci.Mirror {
	return oci.New(m.client, template, oci.Access{Push: push, Credentials: m.config.OCICredentials, Hint: m.config.OCIHint})
}

// openBucket opens a place in an S3-compatible store.
func (m *rootModule) openBucket(ctx context.Context, typed, endpoint string) (*bucket.Bucket, error) {
	at, err := bucket.ParseURL(typed)
	if err != nil {
		return nil, report.Usage(err)
	}
	env := bucket.Environment(m.config.AWS)
	return bucket.Open(ctx, at, bucket.Options{Endpoint: cmp.Or(endpoint, env.Endpoint), Env: env, Client: m.client, Secrets: m.output.Secrets()})
}

// target returns the place to push to.
func (m *rootModule) target(ctx context.Context, typed, endpoint string) (publish.Target, error) {
	switch {
	case m.flags.Offline:
		return nil, fmt.Errorf("%s: %w", typed, sources.ErrOffline)
	case endpoint != "" && !strings.HasPrefix(typed, bucketScheme):
		return nil, report.Usage(errors.New("--endpoint requires a place s3://BUCKET/PREFIX"))
	case strings.HasPrefix(typed, bucketScheme):
		b, err := m.openBucket(ctx, typed, endpoint)
		if err != nil {
			return nil, err
		}
		return publish.NewBucket(b), nil
	case strings.HasPrefix(typed, ociScheme):
		template, err := parseOCI(typed)
		if err != nil {
			return nil, err
		}
		return &publish.OCI{Mirror: m.ociMirror(template, true), Template: template, URL: typed}, nil
	case strings.HasPrefix(typed, "https://"), strings.HasPrefix(typed, "http://"):
		return nil, report.Usage(sources.WithHint(fmt.Errorf("%s: Larder can't write to web servers", typed), "copy the directory to the server, or name an oci:// or s3:// place"))
	}
	return nil, report.Usage(sources.WithHint(fmt.Errorf("%s is not a place to push to", typed), "write 'oci://HOST/TEMPLATE' or s3://BUCKET/PREFIX"))
}

// parseOCI parses oci://HOST/TEMPLATE.
func parseOCI(typed string) (oci.Template, error) {
	template, err := oci.ParseTemplate(strings.TrimPrefix(typed, ociScheme))
	if err != nil && !strings.Contains(typed, "$") {
		err = sources.WithHint(err, "write it in single quotes: in double quotes or without any, the shell replaces ${namespace} and ${type}")
	}
	if err != nil {
		return template, report.Usage(fmt.Errorf("%s: %w", typed, err))
	}
	return template, nil
}

// A PushRequest says what to push where.
type PushRequest struct {
	Dir, To        string   // as typed
	Patterns       []string // of the providers; empty means all
	Endpoint       string   // of the store; empty means AWS
	Replace, Prune bool
}

// PushMirror publishes what a mirror has in an OCI registry or a bucket.
func PushMirror(ctx context.Context, s *Session, request PushRequest) error {
	patterns, err := s.readPatterns(request.Patterns)
	if err != nil {
		return err
	}
	m, err := s.here(ctx)
	if err != nil {
		return err
	}
	target, err := m.target(ctx, request.To, request.Endpoint)
	if err != nil {
		return err
	}
	releases, problems, err := m.releases(ctx, request.Dir, patterns)
	if err != nil {
		return err
	}
	sum := &report.PushSum{DryRun: s.flags.DryRun}
	s.output.Summary(sum)
	result, err := report.Work(s.output, func(progress report.Report) (publish.Result, error) {
		return publish.Push(ctx, target, releases, publish.Options{
			Replace: request.Replace, Prune: request.Prune, DryRun: s.flags.DryRun, Jobs: s.flags.Jobs, Report: progress,
		})
	})
	err = errors.Join(append(problems, err)...)
	for _, e := range sources.Errors(err) {
		if _, differs := errors.AsType[*publish.DifferError](e); !differs {
			sum.Failed++
		}
	}
	s.output.Pushed(result, sum)
	s.output.Conclude("%s", sum.Text(request.To))
	return err
}

// releases returns what a mirror, as typed, has of the providers that the patterns select. Problems are the packages that
// can't be published.
func (m *rootModule) releases(ctx context.Context, typed string, patterns []pattern) (releases []publish.Release, problems []error, err error) {
	dir, err := m.existing(typed)
	if err != nil {
		return nil, nil, err
	}
	b, err := m.openMirror(ctx, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	defer b.Close()
	entries, err := report.Work(m.output, func(progress report.Report) ([]builder.Entry, error) {
		return b.List(ctx, builder.ListOptions{Hash: true, Again: true, Proofs: true, Report: progress})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	var ids []sources.PackageID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	unmatched(m.output, patterns, ids)
	unpacked := 0
	for _, e := range entries {
		if !selected(patterns, e.ID) {
			continue
		}
		zh := hashOf(sources.ZH, e.Hashes)
		switch {
		case e.Unpacked:
			unpacked++
			continue
		case e.Err != nil:
			problems = append(problems, hintDamage(e.Err, typed))
			continue
		case e.Stored.Differs != "" || zh == "":
			err := &sources.PackageError{ID: e.ID, Err: errors.New("the archive has changed since it was stored, and is not pushed")}
			problems = append(problems, hintDamage(err, typed))
			continue
		}
		if n := len(releases); n == 0 || releases[n-1].Release != e.ID.Release() {
			releases = append(releases, publish.Release{Release: e.ID.Release()})
		}
		r := &releases[len(releases)-1]
		if n := len(r.Packages); n > 0 && r.Packages[n-1].ID == e.ID {
			continue // under another name
		}
		r.Packages = append(r.Packages, publish.Package{ID: e.ID, Path: filepath.Join(dir, filepath.FromSlash(e.Path)), Size: e.Size, ZH: zh, Hashes: e.Hashes})
	}
	if unpacked > 0 {
		problems = append(problems, sources.WithHint(fmt.Errorf("%s unpacked, and places have archives", ui.Count(unpacked, "package")+" of the mirror are"),
			"create a mirror of archives with larder mirror sync, without --unpacked"))
	}
	for i := range releases {
		releases[i].Evidence, err = m.evidenceFiles(dir, releases[i].Release)
		if err != nil {
			m.output.Warn("the evidence for %s is not pushed: %v", releases[i].Release, err)
		}
	}
	return releases, problems, nil
}

// evidenceFiles returns the evidence that a mirror has for a release, or nil if it has none.
func (m *rootModule) evidenceFiles(dir string, r sources.Release) (*evidence.Files, error) {
	signed, err := evidence.Of(dir, r.Provider, r.Version)
	if err != nil {
		if errors.Is(err, sources.ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	files, err := evidence.Pack(signed)
	return &files, err
}

// hashOf returns the hash of a scheme, or "".
func hashOf(scheme string, hashes []sources.Hash) sources.Hash {
	if i := slices.IndexFunc(hashes, func(h sources.Hash) bool { return h.Scheme() == scheme }); i >= 0 {
		return hashes[i]
	}
	return ""
}
