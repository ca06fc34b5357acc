package fetch

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"runtime"

	"github.com/larder-cli/larder/sources"
)

// TokenHint is what to do about a refusal by a host, with or without a token. It is empty
// if the token sent is for another host.
func (c *Client) TokenHint(host sources.Host, sent bool) string {
	switch {
	case c.opts.TokenHint != nil:
		return c.opts.TokenHint(host, sent)
	case sent:
		return fmt.Sprintf("check that the token for %s has not expired and may read this provider", host)
	default:
		return fmt.Sprintf("configure credentials for %s", host)
	}
}

// suggestAuthority adds to an error of a certificate by an unknown authority where the
// authority can be configured.
func (c *Client) suggestAuthority(u *url.URL, err error) error {
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		return err
	}
	system := "to the system's trust store, name its file in SSL_CERT_FILE"
	switch runtime.GOOS {
	case "darwin":
		system = "to the keychain"
	case "windows":
		system = "to the Windows certificate store"
	}
	return sources.WithHint(err, "add the authority that issued the certificate of %[1]s %[2]s, or add host %[1]q { ca_file = \"FILE\" } to %[3]s",
		u.Host, system, c.hostsFile())
}

// hostsFile is where hosts are configured, as hints name it.
func (c *Client) hostsFile() string {
	return orDefault(c.opts.HostsFile, "Larder's configuration file")
}
