package cliconfig_test

import (
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestNetrc(t *testing.T) {
	for _, tt := range []struct{ name, src, host, want string }{
		{"one line", "machine a.example login me password secret", "a.example", "me:secret"},
		{"many lines", "machine\n\ta.example\r\nlogin me\n  password\n secret\n", "a.example", "me:secret"},
		{"another", "machine a.example login me password secret", "b.example", ""},
		{"port counts", "machine a.example login me password secret", "a.example:8443", ""},
		{"port matches", "machine a.example:8443 login me password secret", "a.example:8443", "me:secret"},
		{"any case", "machine A.example login me password secret", "a.EXAMPLE", "me:secret"},
		{"first match", "machine a.example login 1 password p machine a.example login 2 password p", "a.example", "1:p"},
		{"default", "default login me password secret", "a.example", "me:secret"},
		{"machine before default", "default login d password p\nmachine a.example login me password secret", "a.example", "me:secret"},
		{"no default for a machine with no login", "machine a.example\ndefault login me password secret", "a.example", ""},
		{"order of words", "machine a.example password secret account x login me", "a.example", "me:secret"},
		{"only a password", "machine a.example password secret", "a.example", ":secret"},
		{"keyword as value", "machine a.example login machine password default", "a.example", "machine:default"},
		{"quoted", `machine a.example login "m e" password "s\"e\\c\tr"`, "a.example", "m e:s\"e\\c\tr"},
		{"lone quote", `machine a.example login me password "secret`, "a.example", `me:"secret`},
		{"comment", "# machine a.example login no password no\nmachine a.example # more\nlogin me password secret", "a.example", "me:secret"},
		{"password that looks like a comment", "machine a.example login me password #secret", "a.example", "me:#secret"},
		{"macro", "machine b.example login b password b\nmacdef init\nmachine a.example\nlogin no\n\nmachine a.example login me password secret", "a.example", "me:secret"},
		{"macro to the end", "machine a.example login me password secret\nmacdef init\nmachine a.example", "a.example", "me:secret"},
		{"login before any machine", "login no password no machine a.example login me password secret", "a.example", "me:secret"},
		{"a machine without a name", `machine "" login me password secret`, "a.example", ""},
		{"an unknown word", "machine a.example\n  user me password secret", "a.example", ":secret"},
		{"truncated", "machine a.example login me password", "a.example", "me:"},
	} {
		c := mustLoad(t, linux(map[string]string{"/home/me/.netrc": tt.src}), terraform)
		user, password, ok := c.Netrc(tt.host)
		got := ""
		if ok {
			got = user + ":" + password
		}
		sourcetest.Equal(t, got, tt.want, tt.name)
	}
}
