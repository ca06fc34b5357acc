package cliconfig

import (
	"context"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// TokenOrigin returns where the token for a host comes from, for messages. It is empty if there is none. It runs
// the credentials helper if [Config.Token] does.
func (c *Config) TokenOrigin(ctx context.Context, host sources.Host) (string, error) {
	if t, ok := c.tokens[host]; ok && t.isSet() {
		if t.variable {
			return "variable " + t.origin, nil
		}
		return t.origin, nil
	}
	_, ok, err := c.Token(ctx, host)
	if err != nil || !ok {
		return "", err
	}
	return "the credentials helper " + c.helper.name, nil
}

// AuthoritiesOrigin returns where the certificate authorities for a host come from, for messages.
func (c *Config) AuthoritiesOrigin(host sources.Host) string {
	var from []string
	if c.machine.GOOS != "darwin" && c.machine.GOOS != "windows" { // which have certificate stores
		for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
			if c.machine.getenv(name) != "" && (name != "SSL_CERT_FILE" || c.CertificateFault == "") {
				from = append(from, name)
			}
		}
	}
	if len(from) == 0 {
		from = []string{"the system"}
	}
	if len(c.HostOptions[host].Authorities) > 0 {
		from = append(from, "the host block in "+c.LarderFile())
	}
	return strings.Join(from, " and ")
}
