package lockfile_test

import (
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func FuzzQuote(f *testing.F) {
	for _, s := range []string{
		"", "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "~> 2.0, != 2.5", "a\nb\r\tc", `"\`, "${a} $${b} %{c} %%{d} $ % {",
		"\x00\x7f\u200c\u00a0é", "e\u0301", "\U000e0001\U0001f600", "\xff\xc3", "ende$",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sourcetest.Equal(t, lockfile.Quote(s), string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()), s, "hclwrite has")
	})
}
