package sources_test

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestParseFingerprint(t *testing.T) {
	const v4 = "C874011F0AB405110D02105534365D9472D7468F"
	v6 := strings.Repeat("0123456789ABCDEF", 4)
	for _, tt := range []struct{ text, want, err, hint string }{
		{v4, v4, "", ""},
		{strings.ToLower(v4), v4, "", ""},
		{"C874 011F 0AB4 0511 0D02  1055 3436 5D94 72D7 468F", v4, "", ""},
		{v6, v6, "", ""},
		{"72D7468F", "", `"72D7468F" is a key id, not a fingerprint`, "another key can have the same id"},
		{"3436 5D94 72D7 468F", "", "is a key id", "40 or 64"},
		{v4[1:], "", "has 39 digits", "40 or 64"},
		{v6 + "0", "", "has 65 digits", "40 or 64"},
		{"", "", "empty", "40 or 64"},
		{"0x" + v4, "", "is not a fingerprint", "gpg --fingerprint"},
		{"acme@example.org", "", "is not a fingerprint", "gpg --fingerprint"},
		{v4[:39] + "G", "", "is not a fingerprint", ""},
	} {
		got, err := sources.ParseFingerprint(tt.text)
		if tt.err == "" {
			sourcetest.Expect(t, err == nil && string(got) == tt.want, "%q: got %q, %v", tt.text, got, err)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(strings.Join(sources.Hints(err), ""), tt.hint) {
			t.Errorf("%q: got %q, %v, hints %q", tt.text, got, err, sources.Hints(err))
		}
	}
	sourcetest.Equal(t, sources.Fingerprint("C874011F0A").Spaced(), "C874 011F 0A")
}
