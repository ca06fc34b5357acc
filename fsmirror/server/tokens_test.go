package server_test

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestParseTokens(t *testing.T) {
	const sum = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // of "secret"
	for _, c := range []struct{ text, err string }{
		{"ci " + sum + "\n# comment\n\n  ops\t" + strings.ToUpper(sum) + "  \r\n", ""},
		{"", "no token"},
		{"# only a comment", "no token"},
		{"ci secret", "line 1"},
		{"ci " + sum + "\nops", "line 2"},
		{"ci " + sum[1:], "line 1"},
		{"ci " + sum + " more", "line 1"},
		{"ci " + sum + "\nci " + sum, "earlier line"},
	} {
		tokens, err := server.ParseTokens([]byte(c.text))
		switch {
		case c.err == "":
			sourcetest.Expect(t, err == nil && len(tokens) == 2, "%q: %v %v", c.text, tokens, err)
		case err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error()+strings.Join(sources.Hints(err), ""), "secret"):
			t.Errorf("%q: %v", c.text, err)
		}
	}
}
