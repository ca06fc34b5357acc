package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer/datadir"
	"github.com/larder-cli/larder/sources"
)

// gatherPayload reads what --modules and --engine-binary add to a bundle.
func (w *wanted) gatherPayload(c *cli.Context) ([]bundle.Payload, error) {
	engine := ""
	if c.IsSet("engine-binary") {
		if engine = c.String("engine-binary"); engine == "" {
			return nil, usageError{errors.New("--engine-binary is empty")}
		}
		engine = absolute(w.dir, engine)
	}
	var roots []bundle.Root
	if c.Bool("modules") {
		var err error
		if roots, err = w.bundleRoots(c.Context); err != nil {
			return nil, err
		}
	}
	payload, err := bundle.Gather(c.Context, roots, engine, w.out.WarnOf)
	if err == nil && c.Bool("modules") && !slices.ContainsFunc(payload, func(p bundle.Payload) bool { return p.Kind == bundle.RootModules }) {
		w.out.WarnHint("terraform get or tofu get installs modules", "no modules are installed for the root modules")
	}
	return payload, err
}

// bundleRoots returns the root modules that the arguments and flags name. Their paths in the
// bundle are relative to the directory in which the command runs.
func (w *wanted) bundleRoots(ctx context.Context) ([]bundle.Root, error) {
	if len(w.paths) == 0 {
		return nil, usageError{sources.WithHint(errors.New("--modules needs a root module where providers are named"), "add . for the one here, with -R for those below too")}
	}
	var roots []bundle.Root
	owners := map[string]string{}
	for _, typed := range w.paths {
		dirs, err := w.dirsAt(ctx, absolute(w.dir, typed))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			if slices.ContainsFunc(roots, func(r bundle.Root) bool { return r.Dir == dir }) {
				continue
			}
			path, err := filepath.Rel(w.dir, dir)
			if err != nil || !filepath.IsLocal(path) {
				err := fmt.Errorf("--modules: %s is not in %s", w.shown(dir), w.dir)
				return nil, usageError{sources.WithHint(err, "add --chdir with a directory that contains all root modules")}
			}
			m, err := w.root(ctx, dir, w.out)
			if err != nil {
				return nil, err
			}
			data := m.config.DataDir
			if err := datadir.CheckOwn(dir, data); err != nil {
				return nil, fmt.Errorf("--modules: %w", err)
			}
			if other, ok := owners[data]; ok {
				err := fmt.Errorf("--modules: %s is the data directory of both %s and %s", data, other, w.shown(dir))
				return nil, sources.WithHint(err, "unset TF_DATA_DIR, or set it to a relative path")
			}
			owners[data] = w.shown(dir)
			roots = append(roots, bundle.Root{Path: filepath.ToSlash(path), Dir: dir, DataDir: data})
		}
	}
	return roots, nil
}

// dirsAt returns the root modules at a path. A file is in none: it only lists providers.
func (w *wanted) dirsAt(ctx context.Context, path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, nil
	case !w.flags.recursive:
		return []string{path}, nil
	}
	return w.find(ctx, path)
}

// payloadInfo is a payload of a bundle, in JSON.
type payloadInfo struct {
	Kind   bundle.PayloadKind `json:"kind"`
	Root   string             `json:"root,omitempty"`
	Name   string             `json:"name,omitempty"`
	Files  int                `json:"files"`
	Size   int64              `json:"size"`
	SHA256 string             `json:"sha256,omitempty"`
	Part   int                `json:"part,omitempty"`
	How    string             `json:"how,omitempty"`
	To     string             `json:"to,omitempty"`
}

func payloadOf(p bundle.Payload) payloadInfo {
	info := payloadInfo{Kind: p.Kind, Root: p.Root, Files: len(p.Files), Size: p.Size(), Part: p.Part}
	if p.Kind == bundle.EngineBinary {
		info.Name, info.SHA256 = p.Files[0].Name, hex.EncodeToString(p.Files[0].SHA256[:])
	}
	return info
}

// payloadRow returns a row for a payload. The mark is its first cell.
func payloadRow(p bundle.Payload, mark ui.Span) ui.Row {
	part := ""
	if p.Part > 0 {
		part = fmt.Sprintf("part %d", p.Part)
	}
	return ui.Row{Value: payloadOf(p), Cells: []ui.Span{
		mark, {Text: p.String(), Paint: ui.Bold}, {Text: ui.Count(len(p.Files), "file")}, {Text: ui.Size(p.Size())}, {Text: part},
	}}
}

var payloadColumns = []ui.Column{{}, {Shorten: true}, {Right: true, Drop: 1}, {Right: true}, {Drop: 2, Shorten: true}}

// showPayload lists the payloads of a bundle, with the checksum of an engine for the import.
func showPayload(out *ui.Output, all []bundle.Payload, mark ui.Span) {
	var rows []ui.Row
	for _, p := range all {
		rows = append(rows, payloadRow(p, mark))
	}
	out.Grid("payload", payloadColumns, rows)
	for _, p := range all {
		if p.Kind == bundle.EngineBinary {
			out.Say("SHA-256 of %s: %x", p.Files[0].Name, p.Files[0].SHA256)
		}
	}
}

// withPayload describes payloads at the end of a summary: ", modules of 2 root modules and
// tofu (91 MB)".
func withPayload(all []bundle.Payload) string {
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf(", %s (%s)", payloadText(all), ui.Size(payloadSize(all)))
}

func payloadSize(all []bundle.Payload) int64 { return bundle.Manifest{Payload: all}.PayloadSize() }

// payloadText describes payloads: "modules of 2 root modules and tofu".
func payloadText(all []bundle.Payload) string {
	var parts []string
	roots := 0
	for _, p := range all {
		if p.Kind == bundle.RootModules {
			roots++
		} else {
			parts = append(parts, p.Files[0].Name)
		}
	}
	if roots > 0 {
		parts = append([]string{"modules of " + ui.Count(roots, "root module")}, parts...)
	}
	return strings.Join(parts, " and ")
}
