package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// suggest adds what to do about it to the error of the last try. For an archive, the Request is empty.
func (c *Client) suggest(asked *url.URL, r Request, err error) error {
	hint := ""
	switch status, answered := errors.AsType[*StatusError](err); {
	case answered:
		hint = c.hint(asked, r, status)
	case errors.Is(err, ErrStalled):
		hint = "if the server needs longer, set TF_REGISTRY_CLIENT_TIMEOUT to a larger number of seconds"
	}
	if hint == "" {
		return err
	}
	return sources.WithHint(err, "%s", hint)
}

// hint returns what to do about a refusal, or nothing.
func (c *Client) hint(asked *url.URL, r Request, status *StatusError) string {
	const mayBeMissing = "object stores also return this for files that do not exist"
	at, err := url.Parse(status.URL)
	if err != nil {
		return ""
	}
	unauthorized, elsewhere := errors.Is(status, ErrUnauthorized), !sameOrigin(asked, at)
	of := cmp.Or(r.TokenOf, c.host(asked).name)
	limited := status.signed || strings.Contains(strings.ToLower(status.Said), "expired")
	hint := ""
	switch by := c.authorizer(at); {
	case by != nil:
		return by.Hint(status)
	case !r.Credentials && status.expired() && limited:
		return "signed URLs are valid for a limited time: check the clock of this machine, " +
			"and how long the registry's URLs are valid"
	case !unauthorized:
		return ""
	case status.ObjectStore && !r.Credentials:
		return mayBeMissing
	case status.ObjectStore && status.Code == http.StatusForbidden:
		return mayBeMissing + ": grant readers the right to list the bucket, or exclude the provider from the installation method"
	case !r.Credentials && (asked.Scheme != "https" || elsewhere || status.Credentials || of == ""):
		return ""
	case !r.Credentials && c.hostOptions(asked).TokenForArchives:
		return fmt.Sprintf("if archives of %s need a token, %s", asked.Host, c.opts.TokenHint(of, false))
	case !r.Credentials:
		return fmt.Sprintf("if archives of %[1]s need its token, add host %[1]q { send_token_to_archives = true } to %[2]s",
			asked.Host, c.opts.HostsFile)
	case elsewhere:
		hint = fmt.Sprintf("no token was sent: %s redirected the request to %s, "+
			"and tokens don't follow redirects to other hosts", asked.Host, at.Host)
	case at.Scheme != "https":
		hint = fmt.Sprintf("no token was sent to %s: tokens are sent over https only", status.URL)
	case of == "":
		hint = fmt.Sprintf("credentials cannot be configured for %s", asked.Host)
	default:
		hint = c.opts.TokenHint(of, status.Credentials)
	}
	if r.TokenOf == "" && r.For != "" && asked.Host != r.For.ASCII() {
		hint = fmt.Sprintf("the registry of %s is at %s, and tokens are sent to their own host only: %s",
			r.For, asked.Host, hint)
	}
	return hint
}
