package evidence

import "github.com/larder-cli/larder/sources"

// Nearest returns the version among names that is next below v, or else next above.
// The names are those in the directory of a provider's evidence; others are skipped.
func Nearest(names []string, v sources.Version) (near sources.Version, ok bool) {
	for _, name := range names {
		other, err := sources.ParseVersion(name)
		if err != nil || other == v || other.String() != name {
			continue
		}
		if !ok || nearer(other, near, v) {
			near, ok = other, true
		}
	}
	return near, ok
}

// nearer reports whether a is to be compared with v rather than b.
func nearer(a, b, v sources.Version) bool {
	below, wasBelow := a.Compare(v) < 0, b.Compare(v) < 0
	switch {
	case below != wasBelow:
		return below
	case below:
		return a.Compare(b) > 0
	}
	return a.Compare(b) < 0
}
