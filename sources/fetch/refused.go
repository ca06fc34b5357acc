package fetch

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"runtime"

	"github.com/larder-cli/larder/sources"
)

// TokenHint is what to do about the refusal of a request for which a host's token counts, with
// or without credentials sent.
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

// RefusalHint is what to do if err is an answer 401 or 403 to a request for a URL, for which the
// token of the host counts, or of the URL's host if that is empty. Otherwise it is empty.
func (c *Client) RefusalHint(err error, asked *url.URL, of sources.Host) string {
	var status *StatusError
	if !errors.Is(err, ErrUnauthorized) || !errors.As(err, &status) {
		return ""
	}
	if of == "" {
		of, _ = hostOf(asked)
	}
	at, parseErr := url.Parse(status.URL)
	switch {
	case parseErr != nil:
		return ""
	case !sameOrigin(asked, at):
		return fmt.Sprintf("no token was sent: %s redirected the request to %s, and tokens don't follow redirects to other hosts", asked.Host, at.Host)
	case at.Scheme != "https":
		return fmt.Sprintf("no token was sent to %s: tokens are sent over https only", status.URL)
	case of == "":
		return fmt.Sprintf("%s can have no credentials", asked.Host)
	}
	return c.TokenHint(of, status.Credentials)
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
