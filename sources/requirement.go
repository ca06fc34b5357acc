package sources

import (
	"fmt"
	"strings"
)

// A Requirement is a provider that a root module requires, with the
// intersection of its modules' constraints.
type Requirement struct {
	Provider    Provider
	Constraints Constraints
	From        []Origin // every place that requires it, in order

	// Recorded requirements are known only from a lock file, which records the Constraints.
	Recorded bool
}

// AllowsLocked reports whether the locked version v may stay. Engines don't compare it with the
// constraints that the lock file records.
func (r Requirement) AllowsLocked(v Version) bool { return r.Recorded || r.Constraints.Allow(v) }

// Fixed reports whether the locked version stays even in an upgrade, because it is unknown which
// others the configuration allows.
func (r Requirement) Fixed() bool { return r.Recorded && r.Constraints.Empty() }

// An Origin is a place in a configuration, or a lock file, that requires a provider.
type Origin struct {
	File       string // path as the user would write it, relative to the working directory
	Line       int    // 0 if a line means nothing to the user, as in a state
	Constraint string // as written; empty if there is none
	Module     string // address of the module, as in module.net; empty for the root module
}

// CutVersion splits ADDRESS@VERSION, as people type it, into the two. It understands the
// forms of other tools too: ADDRESS==VERSION, and ADDRESS followed by a constraint with
// another operator.
func CutVersion(s string) (address, version string, ok bool) {
	i := strings.IndexAny(s, "@=<>~!")
	if i < 0 {
		return s, "", false
	}
	address, version = strings.TrimSpace(s[:i]), strings.TrimPrefix(s[i:], "@")
	if exact, found := strings.CutPrefix(strings.TrimSpace(version), "=="); found {
		version = exact
	}
	return address, version, true
}

// ParseRequirement parses ADDRESS[@CONSTRAINT], the form for the command line.
// Missing parts of the address are filled in as by engine e.
func ParseRequirement(s string, e Engine) (Requirement, error) {
	address, constraint, constrained := CutVersion(s)
	p, err := ParseProvider(address, e)
	switch {
	case err != nil:
		return Requirement{}, err
	case p.Legacy():
		err := fmt.Errorf("provider source %q has no namespace, as in Terraform 0.12", address)
		return Requirement{}, WithHint(err, "name it, as in hashicorp/%s", p.Type)
	case p.BuiltIn():
		return Requirement{}, fmt.Errorf("provider source %q is built into the engine", address)
	case !constrained:
		return Requirement{Provider: p}, nil
	case strings.TrimSpace(constraint) == "":
		err := fmt.Errorf("%q lacks a version constraint", s)
		return Requirement{}, WithHint(err, "to allow every release, leave out the @ too")
	}
	c, err := ParseConstraints(constraint)
	if err != nil {
		return Requirement{}, fmt.Errorf("%s: %w", address, err)
	}
	return Requirement{Provider: p, Constraints: c}, nil
}

// A root module is a directory that an engine is run in. It has configuration
// files, and no other module calls it. A called module counts if it has a lock
// file or configures a backend. installer/modules reads the configuration to
// find root modules.
//
// An engine that has run in a directory has created these names there. cachedir
// searches for them where it must find every directory that may use a package,
// whatever the configuration contains.
const (
	LockFile = ".terraform.lock.hcl" // the dependency lock file
	DataDir  = ".terraform"          // the data directory, unless TF_DATA_DIR names another
)
