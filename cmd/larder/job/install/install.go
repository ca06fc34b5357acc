// Package install contains the jobs for root modules: install, prefetch, lock, verify and check. It leaves on disk lock
// files, and what the stores that it fills leave.
package install

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
)

// An InstallRequest says what to install, and from where.
type InstallRequest struct {
	Roots        []string // directories as typed; none means the one in which larder works
	PluginDirs   []string // mirrors as typed, in place of all other sources
	ReadOnlyLock bool
}

// Install installs the providers that root modules require.
func Install(ctx context.Context, s *site.Site, request InstallRequest) error {
	in := &job.Installation{Site: s, PluginPath: request.PluginDirs, ReadOnlyLock: request.ReadOnlyLock}
	s.Reading.Certain = request.ReadOnlyLock
	if err := job.UseMirrors(in.Site, "--plugin-dir", request.PluginDirs); err != nil {
		return err
	}
	if err := job.TakeRoots(in.Site, request.Roots); err != nil {
		return err
	}
	return in.Run(ctx)
}
