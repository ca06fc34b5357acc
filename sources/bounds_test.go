package sources_test

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
)

func TestVeryLongTexts(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	parsers := map[string]func(string) error{
		"version": func(s string) error { _, err := sources.ParseVersion(s); return err },
		"hash":    func(s string) error { _, err := sources.ParseHash(s); return err },
	}
	for _, tt := range []struct{ parser, in string }{
		{"version", "1.0.0-" + long}, {"version", "1.0.0+" + long}, {"version", long},
		{"version", "1." + strings.Repeat("1", 10_000)},
		{"hash", long}, {"hash", "h1:" + long},
	} {
		if err := parsers[tt.parser](tt.in); err == nil || len(err.Error()) > 500 {
			t.Errorf("%s %.10q…: got error %v, want a short one", tt.parser, tt.in, err)
		}
	}
}
