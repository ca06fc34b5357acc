// Package install contains the jobs for root modules: install, prefetch, lock, verify and check. It leaves on disk lock
// files, and what the stores that it fills leave.
package install

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

// Install installs the providers that root modules require: those in directories as typed, or the one in which larder
// works.
func Install(ctx context.Context, s *site.Site, roots []string) error {
	if s.Flags.LockMode != "" && s.Flags.Upgrade {
		return report.Usage(errors.New("--upgrade and --lockfile exclude each other"))
	}
	s.Reading.Certain, s.Reading.Empty = s.Flags.LockMode != "", s.Flags.AllowEmpty
	if err := job.UseMirrors(s, "--plugin-dir", s.Flags.PluginDirs); err != nil {
		return err
	}
	if err := job.TakeRoots(s, roots); err != nil {
		return err
	}
	return (&job.Installation{Site: s, PluginPath: s.Flags.PluginDirs}).Run(ctx)
}
