package cliconfig

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// CheckoutFile is the name of the file in a checkout that has settings for Larder. Anyone who
// can change the checkout can write it, so it has one setting, which can't loosen any check.
const CheckoutFile = ".larder.hcl"

// engineSetting is a setting in Larder's own file and in a [CheckoutFile].
const engineSetting = "engine"

// EngineSetting returns the engine that Larder's own file names, and the path of the file. The
// engine is empty if the file names none, or has errors, which [Load] reports.
func (m Machine) EngineSetting(ctx context.Context) (e sources.Engine, path string) {
	l := &loader{Machine: m, ctx: ctx}
	f := l.chooseLarderFile()
	if f.path == "" {
		return "", ""
	}
	root, ok := l.loadTree(f)
	if !ok {
		return "", f.path
	}
	return l.engineIn(root), f.path
}

// CheckoutEngine returns the engine that the [CheckoutFile] in dir names, or "" if there is no
// such file, or if it is empty. It returns an error for any other setting in it, and for a link.
func CheckoutEngine(dir string) (sources.Engine, error) {
	in, err := disk.Open(dir)
	if err != nil {
		return "", err
	}
	defer in.Close()
	src, _, err := in.ReadFile(CheckoutFile, maxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	root, bad := parse(filepath.Join(dir, CheckoutFile), src)
	if bad != nil {
		return "", sources.Diagnostics{*bad}.Err()
	}
	l := &loader{}
	if root.kind != isObject {
		l.errorf(root.place, "", "not an object")
	}
	for _, e := range root.entries {
		if e.key != engineSetting {
			l.unknown(e, []string{engineSetting}, "a checkout can only set engine; other settings belong in Larder's own file, larder/config.hcl")
		}
	}
	e := l.engineIn(root)
	l.sort(0)
	return e, l.diags.Err()
}

// engineIn returns the engine that a file names, or "".
func (l *loader) engineIn(root *node) sources.Engine {
	var named sources.Engine
	for i, e := range root.find(engineSetting) {
		engine := sources.Engine(e.value.text)
		switch {
		case i > 0:
			l.errorf(e.place, "", "engine is set twice")
		case e.value.kind != isString:
			l.errorf(e.value.place, "write it in double quotes", "engine must be a string, not %s", e.value.kind)
		case engine != sources.Terraform && engine != sources.OpenTofu:
			l.errorf(e.value.place, `write "terraform" or "tofu"`, "engine is terraform or tofu, not %.40q", e.value.text)
		default:
			named = engine
		}
	}
	return named
}
