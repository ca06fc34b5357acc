package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	inOCI    = "oci"
	inBucket = "s3"
)

// schemeOf returns the scheme of an argument that is a URL, and not a path, or "". It may be http, so that the error is about
// the scheme, and not about a missing directory.
func schemeOf(typed string) string {
	scheme, _, isURL := strings.Cut(typed, "://")
	scheme = strings.ToLower(scheme)
	if !isURL || !slices.Contains([]string{inOCI, inBucket, "https", "http"}, scheme) {
		return ""
	}
	return scheme
}

// IsPlace reports whether an argument is a URL, and not a path.
func IsPlace(typed string) bool { return schemeOf(typed) != "" }

// CheckEndpoint returns an error for a wrong value of --endpoint, which may be empty, and for one that none of the places needs.
func CheckEndpoint(url string, places ...string) error {
	if url == "" {
		return nil
	}
	if !slices.ContainsFunc(places, func(typed string) bool { return schemeOf(typed) == inBucket }) {
		return report.Usage(errors.New("--endpoint requires a place s3://BUCKET/PREFIX"))
	}
	if _, err := bucket.ParseEndpoint(url); err != nil {
		return report.Usage(fmt.Errorf("--endpoint: %w", err))
	}
	return nil
}

// withoutScheme returns what follows the scheme of a place.
func withoutScheme(typed string) string {
	_, rest, _ := strings.Cut(typed, "://")
	return rest
}

// directoryOnly returns an error for a place where a command needs the directory of a mirror.
func directoryOnly(typed string) error {
	if !IsPlace(typed) {
		return nil
	}
	err := fmt.Errorf("%s is not a directory", typed)
	return report.Usage(sources.WithHint(err, "larder mirror push, also with --prune, updates a place from the directory of a mirror; larder mirror sync DIR --from fetches from a place"))
}

// ociAccess returns how requests to OCI registries are authenticated.
func (m *rootModule) ociAccess(push bool) oci.Access {
	return oci.Access{
		Push: push, Credentials: m.config.OCICredentials, TokenServer: m.config.OCITokenServer, Hint: m.config.OCIHint,
	}
}

// ociMirror returns the mirror for a template in OCI registries.
func (m *rootModule) ociMirror(template oci.Template, push bool) *oci.Mirror {
	return oci.New(m.client, template, m.ociAccess(push))
}

// openBucket opens a place in an S3-compatible store.
func (m *rootModule) openBucket(ctx context.Context, r PlaceRequest) (*bucket.Bucket, error) {
	at, err := bucket.ParseURL(r.Place)
	if err != nil {
		return nil, report.Usage(err)
	}
	env := bucket.Environment(m.config.AWS)
	return bucket.Open(ctx, at, bucket.Options{Endpoint: cmp.Or(r.Endpoint, env.Endpoint), Env: env, Client: m.client, Secrets: m.output.Secrets()})
}

// target returns the place to push to.
func (m *rootModule) target(ctx context.Context, r PlaceRequest) (publish.Target, error) {
	typed := r.Place
	switch scheme := schemeOf(typed); {
	case m.flags.Offline:
		return nil, fmt.Errorf("%s: %w", typed, sources.ErrOffline)
	case scheme == inBucket:
		b, err := m.openBucket(ctx, r)
		if err != nil {
			return nil, err
		}
		return publish.NewBucket(b), nil
	case scheme == inOCI:
		template, err := parseOCI(typed)
		if err != nil {
			return nil, err
		}
		return &publish.OCI{Mirror: m.ociMirror(template, true), Template: template, URL: typed}, nil
	case scheme != "":
		return nil, report.Usage(sources.WithHint(fmt.Errorf("%s: Larder can't write to web servers", typed), "copy the directory to the server, or name an oci:// or s3:// place"))
	}
	return nil, report.Usage(sources.WithHint(fmt.Errorf("%s is not a place to push to", typed), "write 'oci://HOST/TEMPLATE' or s3://BUCKET/PREFIX"))
}

// parseOCI parses oci://HOST/TEMPLATE.
func parseOCI(typed string) (oci.Template, error) {
	template, err := oci.ParseTemplate(withoutScheme(typed))
	_, path, _ := strings.Cut(withoutScheme(typed), "/")
	if replaced := path == "" || strings.HasSuffix(path, "/") || strings.Contains(path, "//"); err != nil && replaced && !strings.Contains(typed, "$") {
		err = sources.WithHint(err, "write it in single quotes: in double quotes or without any, the shell replaces ${namespace} and ${type}")
	}
	if err != nil {
		return template, report.Usage(fmt.Errorf("%s: %w", typed, err))
	}
	return template, nil
}

// A PushRequest says what to push where.
type PushRequest struct {
	Dir            string // as typed
	To             PlaceRequest
	Patterns       []string // of the providers; empty means all
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
	target, err := m.target(ctx, request.To)
	if err != nil {
		return err
	}
	mirror, err := m.publishable(ctx, request.Dir, patterns)
	if err != nil {
		return err
	}
	sum := &report.PushSum{DryRun: s.flags.DryRun}
	s.output.Summary(sum)
	opts := publish.Options{
		Replace: request.Replace, DryRun: s.flags.DryRun, Judge: m.judge(), Jobs: s.flags.Jobs,
		Holder: report.Holder(), Wait: s.output.WaitingForPlace(request.To.Place),
	}
	if request.Prune {
		opts.Prune = func(id sources.PackageID) bool { return !mirror.has[id] && selected(patterns, id) }
	}
	result, err := report.Work(s.output, func(progress report.Report) (publish.Result, error) {
		opts.Report = progress
		return publish.Push(ctx, target, mirror.releases, opts)
	})
	err = errors.Join(append(mirror.problems, err)...)
	s.output.Pushed(result, sum)
	if err != nil {
		sum.Failed = mirror.selected - sum.Same - sum.Differ - sum.Added - sum.Replaced
	}
	s.output.Conclude("%s", sum.Text(request.To.Place))
	return err
}

// A publishable is what a mirror has to publish.
type publishable struct {
	releases []publish.Release          // that the patterns select
	selected int                        // packages, with those that can't be published
	problems []error                    // why packages can't be published
	has      map[sources.PackageID]bool // all packages of the mirror
}

// publishable reads a mirror, as typed.
func (m *rootModule) publishable(ctx context.Context, typed string, patterns []pattern) (*publishable, error) {
	dir, err := m.existing(typed)
	if err != nil {
		return nil, err
	}
	b, err := m.openMirror(ctx, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	entries, err := report.Work(m.output, func(progress report.Report) ([]builder.Entry, error) {
		return b.List(ctx, builder.ListOptions{Hash: true, Again: true, Proofs: true, Report: progress})
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	all := &publishable{has: map[sources.PackageID]bool{}}
	unpacked := 0
	for _, e := range entries {
		if !selected(patterns, e.ID) {
			all.has[e.ID] = true
			continue
		}
		if !all.has[e.ID] {
			all.has[e.ID] = true
			all.selected++
		}
		zh := hashOf(sources.ZH, e.Hashes)
		switch {
		case e.Unpacked:
			unpacked++
			continue
		case e.Err != nil:
			all.problems = append(all.problems, hintDamage(e.Err, typed))
			continue
		case !within(filepath.Join(dir, filepath.FromSlash(e.Path)), dir): // a checkout must not choose what is published
			err := errors.New("it is a link to a file outside of the mirror, and is not pushed")
			all.problems = append(all.problems, sources.WithHint(&sources.PackageError{ID: e.ID, Err: err}, "copy the file into the mirror"))
			continue
		case e.Stored.Differs != "" || zh == "":
			err := &sources.PackageError{ID: e.ID, Err: errors.New("the archive has changed since it was stored, and is not pushed")}
			all.problems = append(all.problems, hintDamage(err, typed))
			continue
		}
		if n := len(all.releases); n == 0 || all.releases[n-1].Release != e.ID.Release() {
			all.releases = append(all.releases, publish.Release{Release: e.ID.Release()})
		}
		r := &all.releases[len(all.releases)-1]
		if n := len(r.Packages); n > 0 && r.Packages[n-1].ID == e.ID {
			continue // under another name
		}
		r.Packages = append(r.Packages, publish.Package{ID: e.ID, Path: filepath.Join(dir, filepath.FromSlash(e.Path)), Size: e.Size, ZH: zh, Hashes: e.Hashes})
	}
	if unmatched(m.output, patterns, slices.Collect(maps.Keys(all.has))); all.selected == 0 {
		return nil, hasNothing(typed, patterns)
	}
	if unpacked > 0 {
		all.problems = append(all.problems, sources.WithHint(fmt.Errorf("not pushed, because places have only archives: %s in directories", ui.Count(unpacked, "package")),
			"create a mirror of archives with larder mirror sync, without --unpacked"))
	}
	for i := range all.releases {
		r := &all.releases[i]
		if r.Evidence, err = m.evidenceFiles(dir, r.Release); err != nil {
			m.output.Warn("the evidence for %s is not pushed: %v", r.Release, err)
		}
	}
	return all, nil
}

// hasNothing returns the error for a mirror or a place without packages, or without those that the patterns select.
func hasNothing(typed string, patterns []pattern) error {
	if len(patterns) > 0 {
		return sources.WithHint(fmt.Errorf("%s has no packages that match", typed), "larder mirror list %s shows what it has", shellQuoted(typed))
	}
	return sources.WithHint(fmt.Errorf("%s has no packages", typed), "name the place exactly as larder mirror push did")
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
