package job

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// OpenMirror opens the mirror in dir for commands that maintain it. The caller closes it.
func OpenMirror(ctx context.Context, m *site.Root, dir string, opts builder.Options) (*builder.Builder, error) {
	opts, err := MirrorOptions(ctx, m, dir, opts)
	if err != nil {
		return nil, err
	}
	return builder.Open(ctx, dir, opts)
}

// MirrorOptions completes the options with which [OpenMirror] opens a mirror.
func MirrorOptions(ctx context.Context, m *site.Root, dir string, opts builder.Options) (_ builder.Options, err error) {
	opts.Warn = m.Out.WarnOf
	opts.Waiting, opts.LockTimeout = m.Out.WaitingForMirror(dir), m.Flags.LockTimeout
	opts.Judge = m.Judge()
	if opts.Closing == nil {
		opts.Closing = WritePage(ctx, dir, false)
	}
	opts.Records, err = m.Records()
	return opts, err
}

// NoCache fails for a plugin cache, or a directory in one, as a mirror: larder adds and removes
// packages there for any root module, and engines write to it too.
func NoCache(m *site.Root, dir string) error {
	for _, cache := range []string{m.CacheRoot(), m.Config.PluginCacheDir, m.Config.DefaultCacheDir} {
		if cache != "" && site.Within(dir, cache) {
			err := fmt.Errorf("%s is in the plugin cache %s, which cannot be a mirror", dir, cache)
			if site.Within(cache, dir) {
				err = fmt.Errorf("%s is the plugin cache, which cannot be a mirror", dir)
			}
			return report.Usage(sources.WithHint(err, "choose another directory for the mirror"))
		}
	}
	if cachedir.IsCache(dir) {
		err := fmt.Errorf("%s is a plugin cache, which cannot be a mirror", dir)
		return report.Usage(sources.WithHint(err, "choose another directory for the mirror"))
	}
	return nil
}

// tellUse prints how engines can use the mirror in dir, unless they already do. A packed one can be served, too.
func tellUse(m *site.Root, dir string) {
	if Searches(m, dir) {
		return
	}
	path, err := HclPath(dir)
	if err != nil {
		return // the path cannot be written in a configuration
	}
	m.Out.Say("To use it:")
	m.Out.Copy("  provider_installation {", "    filesystem_mirror { path = "+path+" }", "  }")
	if index, _ := fs.Glob(os.DirFS(dir), "[^.]*/*/*/"+fsmirror.Index); len(index) > 0 {
		m.Out.Say("To use it from other machines, serve the directory over HTTPS:")
		m.Out.Copy("  provider_installation {", "    network_mirror {", `      url = "https://example.com/"`, "    }", "  }")
	}
}

// Searches reports whether engines with the configuration of this machine use the mirror in
// dir.
func Searches(m *site.Root, dir string) bool {
	return slices.ContainsFunc(m.Config.MirrorDirs(), func(other string) bool {
		return site.Resolve(other) == site.Resolve(filepath.Clean(dir))
	})
}

// HclPath quotes a path for a CLI configuration. It fails for a path that cannot be written in
// HCL.
func HclPath(path string) (string, error) {
	if strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return "", fmt.Errorf("%q cannot be named in a CLI configuration", path)
	}
	return strings.ReplaceAll(strconv.QuoteToGraphic(path), "$", `\u0024`), nil // an unescaped $ could begin a template
}

// QuotedPath quotes a path for a line of the CLI configuration that the output suggests. A path that no line can
// contain is quoted for people.
func QuotedPath(path string) string {
	quoted, err := HclPath(path)
	if err != nil {
		return strconv.Quote(path)
	}
	return quoted
}

// needMirror is the hint for a path that should be that of a mirror.
const needMirror = "name the directory of a mirror; larder mirror sync DIR creates one"

// Existing returns the directory of an existing mirror, which may have no packages any more.
func Existing(s *site.Site, typed string) (string, error) {
	if err := site.DirectoryOnly(typed); err != nil {
		return "", err
	}
	dir, err := site.Existing(s.WorkDir, typed, site.Directory, needMirror)
	return dir, cmp.Or(err, CheckMirror(dir, needMirror))
}

// CheckMirror returns an error, with the hint, if a directory, which exists, is not a mirror. Larder would
// find no problem there, or leave its own files. A misnamed package is the better hint.
func CheckMirror(dir, hint string) error {
	if _, err := os.ReadDir(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, disk.Cause(err))
	}
	if isStore(dir) {
		return nil
	}
	strays, _ := fsmirror.New(dir, fsmirror.Options{}).Strays(context.Background())
	for _, s := range slices.Backward(strays) { // the first one counts
		if strings.HasPrefix(filepath.Base(s.Path), sources.FilePrefix) {
			hint = s.String()
		}
	}
	return sources.WithHint(fmt.Errorf("%s is not a mirror: it contains no packages", dir), "%s", hint)
}

// CheckMirrorOrEmpty is [CheckMirror] for a directory that may be empty, because its first packages come later.
func CheckMirrorOrEmpty(dir, hint string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return nil
	}
	return CheckMirror(dir, hint)
}

// isStore reports whether a directory contains records of larder or a package in the layout of mirrors and plugin
// caches, or can't be searched. It reads no packages.
func isStore(dir string) bool {
	if site.Exists(filepath.Join(dir, ".larder")) {
		return true
	}
	packages, err := fsmirror.New(dir, fsmirror.Options{}).Packages(context.Background())
	return err != nil || len(packages) > 0
}
