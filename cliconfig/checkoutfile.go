package cliconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/policy"
)

// CheckoutFile is the name of the file in a checkout that has settings for Larder. Anyone who
// can change the checkout can write it, so no setting in it can loosen a check, and none names a file, a
// command or a secret.
const CheckoutFile = ".larder.hcl"

// engineSetting is a setting in Larder's own files and in a [CheckoutFile].
const engineSetting = "engine"

// A Checkout is what a [CheckoutFile] sets.
type Checkout struct {
	Path   string         // absolute; empty if there is no file
	Engine sources.Engine // empty if it names none
	Policy []policy.Rule
}

// ReadCheckout returns what the [CheckoutFile] in dir sets. It returns an error for any other setting in it, and
// for a link.
func ReadCheckout(dir string) (Checkout, error) {
	in, err := disk.Open(dir)
	if err != nil {
		return Checkout{}, err
	}
	defer in.Close()
	src, _, err := in.ReadFile(CheckoutFile, syntax.MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkout{}, nil
	} else if err != nil {
		return Checkout{}, err
	}
	c := Checkout{Path: filepath.Join(dir, CheckoutFile)}
	root, bad := syntax.Parse(c.Path, src)
	if bad != nil {
		return c, sources.Diagnostics{*bad}.Err()
	}
	l := &loader{}
	l.readOwn(root, fields{
		engineSetting:   l.engineName(&c.Engine),
		policyBlockName: l.policy(policy.Repository, &c.Policy),
	}, "a checkout can only set engine and policy; other settings belong in Larder's own file, larder/config.hcl")
	l.diags.Sort()
	return c, l.diags.Err()
}

// engineName is a field for the name of an engine.
func (l *loader) engineName(to *sources.Engine) field {
	return l.parsed(func(text string) (err error) {
		*to, err = parseEngine(text)
		return err
	}, syntax.String)
}

// parseEngine returns the engine of a name. If it fails, the engine is empty.
func parseEngine(name string) (sources.Engine, error) {
	if e := sources.Engine(name); e == sources.Terraform || e == sources.OpenTofu {
		return e, nil
	}
	err := fmt.Errorf("engine is terraform or tofu, not %.40q", name)
	return "", sources.WithHint(err, `write "terraform" or "tofu"`)
}
