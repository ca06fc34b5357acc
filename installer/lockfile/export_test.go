package lockfile

import "github.com/larder-cli/larder/sources"

// Parse reads a lock file that is no file.
func Parse(src []byte) (*File, sources.Diagnostics) { return parse("lock.hcl", src) }

// Render is the text of f whether or not it is what f was read from.
func Render(f *File, e sources.Engine) []byte { return f.render(normalized(f.Entries()), e) }

// Quote is quote, for tests.
var Quote = quote
