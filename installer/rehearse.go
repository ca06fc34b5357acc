package installer

import (
	"context"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// Readings are the hashes of packages on this machine, for dry runs. Installers that
// share Readings read each package once. The zero Readings are ready to use.
type Readings struct {
	memo sources.Memo[sources.Location, reading]
}

type reading struct {
	contents sources.Contents
	zh       sources.Hash // of an archive
}

func (r *Readings) of(ctx context.Context, at sources.Location) (reading, error) {
	return r.memo.Get(ctx, at, func() (reading, error) {
		if at.Dir != "" {
			contents, err := archive.Hash(ctx, at.Dir)
			return reading{contents: contents}, err
		}
		return readArchive(ctx, at.Archive)
	})
}

func readArchive(ctx context.Context, path string) (r reading, err error) {
	f, info, err := openArchive(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	sum, _, err := disk.Hash(ctx, f)
	if err != nil {
		return r, err
	}
	r.zh = sources.ZipHash(sum)
	r.contents, err = archive.Sum(ctx, f, info.Size(), archive.Limits{})
	return r, err
}

// rehearse judges a package that lies on this machine as if the store took it, so
// that a dry run fails where the real one would.
func (d *delivery) rehearse(ctx context.Context) (sources.Stored, error) {
	read, err := d.opts.Readings.of(ctx, d.pkg.Location)
	if d.zh = read.zh; err == nil && d.zh != "" {
		err = d.checkArchive()
	}
	if err == nil {
		_, err = archive.ExecutableIn(read.contents, d.pkg.ID.Provider.Type)
	}
	if err != nil {
		return sources.Stored{}, d.fail(d.pkg.ID, d.pkg.Source, err)
	}
	verdict, err := d.judge(read.contents)
	return sources.Stored{ID: d.pkg.ID, Verdict: verdict, H1: read.contents.H1, ZH: d.zh}, err
}
