package sources

// A root module is a directory that an engine is run in. It has configuration
// files, and other modules don't call it; a called module counts if it has a lock
// file or configures a backend. installer/modules reads the configuration to
// find root modules.
//
// An engine that has run in a directory leaves these names there. cachedir looks
// for them where it must find each directory that may use a package, whatever
// the configuration says.
const (
	LockFile = ".terraform.lock.hcl" // the dependency lock file
	DataDir  = ".terraform"          // the data directory, unless TF_DATA_DIR names another
)
