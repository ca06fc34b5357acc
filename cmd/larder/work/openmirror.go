package work

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// openMirror opens the mirror in dir for commands that maintain it. The caller closes it.
func (m *rootModule) openMirror(ctx context.Context, dir string, opts builder.Options) (*builder.Builder, error) {
	opts.Warn = m.out.WarnOf
	opts.Waiting, opts.LockTimeout = m.out.WaitingForMirror(dir), m.flags.LockTimeout
	opts.Judge = m.judge()
	if opts.Closing == nil {
		opts.Closing = renewPage(ctx, dir)
	}
	var err error
	if opts.Records, err = m.records(); err != nil {
		return nil, err
	}
	return builder.Open(ctx, dir, opts)
}

// noCache fails for a plugin cache, or a directory in one, as a mirror: larder adds and removes
// packages there for any root module, and engines write to it too.
func (m *rootModule) noCache(dir string) error {
	for _, cache := range []string{m.cacheRoot(), m.config.PluginCacheDir, m.config.DefaultCacheDir} {
		if cache != "" && within(dir, cache) {
			err := fmt.Errorf("%s is in the plugin cache %s, which cannot be a mirror", dir, cache)
			if within(cache, dir) {
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

// totalOf adds up a mirror.
func totalOf(entries []builder.Entry) (t report.MirrorTotal) {
	for _, e := range entries {
		t.Packages++
		t.Size += e.Size
	}
	return t
}

// tellUse prints how engines can use the mirror in dir, unless they already do. A packed one can be served, too.
func (m *rootModule) tellUse(dir string, packed bool) {
	if m.searches(dir) {
		return
	}
	path, err := hclPath(dir)
	if err != nil {
		return // the path cannot be written in a configuration
	}
	m.out.Say("To use it:")
	m.out.Copy("  provider_installation {", "    filesystem_mirror { path = "+path+" }", "  }")
	if packed {
		m.out.Say("To use it from other machines, serve the directory over HTTPS:")
		m.out.Copy("  provider_installation {", "    network_mirror {", `      url = "https://example.com/"`, "    }", "  }")
	}
}

// searches reports whether engines with the configuration of this machine use the mirror in
// dir.
func (m *rootModule) searches(dir string) bool {
	same := func(other string) bool { return resolve(Absolute(m.dir, other)) == resolve(filepath.Clean(dir)) }
	if m.config.Implied && slices.ContainsFunc(m.config.ImpliedDirs(), same) {
		return true
	}
	return slices.ContainsFunc(m.config.Methods, func(method cliconfig.Method) bool {
		return method.Kind == cliconfig.FilesystemMirror && same(method.Path)
	})
}

// hclPath quotes a path for a CLI configuration. It fails for a path that cannot be written in
// HCL.
func hclPath(path string) (string, error) {
	if strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return "", fmt.Errorf("%q cannot be named in a CLI configuration", path)
	}
	return strings.ReplaceAll(strconv.QuoteToGraphic(path), "$", `\u0024`), nil // an unescaped $ could begin a template
}

// quotedPath quotes a path for a line of the CLI configuration that the output suggests. A path that no line can
// contain is quoted for people.
func quotedPath(path string) string {
	quoted, err := hclPath(path)
	if err != nil {
		return strconv.Quote(path)
	}
	return quoted
}
