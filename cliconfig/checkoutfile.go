package cliconfig

import (
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

// CheckoutEngine returns the engine that the [CheckoutFile] in dir names, or "" if there is no
// such file, or if it is empty. It returns an error for any other setting in it, and for a link.
func CheckoutEngine(dir string) (e sources.Engine, err error) {
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
	l.readOwn(root, fields{engineSetting: l.engineName(&e)}, "a checkout can only set engine; other settings belong in Larder's own file, larder/config.hcl")
	l.sort(0)
	return e, l.diags.Err()
}

// engineName is a field for the name of an engine.
func (l *loader) engineName(to *sources.Engine) field {
	return func(e entry) {
		engine := sources.Engine(e.value.text)
		switch {
		case !l.is(e.value, writeQuotes, "engine must be a string", isString):
		case engine != sources.Terraform && engine != sources.OpenTofu:
			l.errorf(e.value.place, `write "terraform" or "tofu"`, "engine is terraform or tofu, not %.40q", e.value.text)
		default:
			*to = engine
		}
	}
}
