package cliconfig

import (
	"errors"
	"io/fs"
	"path/filepath"

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
	src, _, err := in.ReadFile(CheckoutFile, maxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkout{}, nil
	} else if err != nil {
		return Checkout{}, err
	}
	c := Checkout{Path: filepath.Join(dir, CheckoutFile)}
	root, bad := parse(c.Path, src)
	if bad != nil {
		return c, sources.Diagnostics{*bad}.Err()
	}
	l := &loader{}
	l.readOwn(root, fields{
		engineSetting: l.engineName(&c.Engine),
		"policy":      l.policy(policy.Repository, &c.Policy),
	}, "a checkout can only set engine and policy; other settings belong in Larder's own file, larder/config.hcl")
	l.sort(0)
	return c, l.diags.Err()
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
