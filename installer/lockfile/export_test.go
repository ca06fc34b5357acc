package lockfile

import "github.com/larder-cli/larder/sources"

// Parse parses the text of a lock file.
func Parse(src []byte) (*File, sources.Diagnostics) { return parse("", "lock.hcl", src) }

// Render returns the text of f, even if that is unchanged.
func Render(f *File, e sources.Engine) []byte { return f.render(normalized(f.Entries()), e) }

var Quote = quote
