package cachedir

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Sums are the SHA-256 of each file of a package, in hexadecimal, by path.
type sums map[string]string

func sumsOf(c sources.Contents) sums {
	s := make(sums, len(c.Files))
	for _, f := range c.Files {
		s[f.Path] = hex.EncodeToString(f.SHA256[:])
	}
	return s
}

// differ says how the files of a package differ from those that were verified on a
// day. It is empty if that is not known.
func (now sums) differ(was sums, day string) string {
	if len(was) == 0 || len(now) == 0 {
		return ""
	}
	var texts []string
	for _, path := range slices.Sorted(maps.Keys(was)) {
		switch sum, ok := now[path]; {
		case !ok:
			texts = append(texts, path+" is missing")
		case sum != was[path]:
			texts = append(texts, path+" differs from what was verified on "+day)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[path]; !ok {
			texts = append(texts, path+" was added")
		}
	}
	const most = 3
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("%d more files differ", len(texts)-most))
	}
	return strings.Join(texts, "; ")
}
