package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// suggest adds to the error of a refused request what to do about it. The request is for a document, or for an archive
// if r is nil.
func (c *Client) suggest(ctx context.Context, u *url.URL, r *Request, err error) error {
	failed, ok := errors.AsType[*Error](err)
	status, answered := errors.AsType[*StatusError](err)
	if !ok || !answered {
		return err
	}
	unauthorized := errors.Is(err, ErrUnauthorized)
	at, _ := url.Parse(status.URL)
	hint := ""
	switch by := c.authorizer(at); {
	case by != nil:
		hint = by.Hint(status)
	case r != nil && r.Credentials:
		if unauthorized {
			hint = c.credentialsHint(u, r, status)
		}
	case status.expired() && (status.signed || strings.Contains(strings.ToLower(status.Said), "expired")):
		hint = "signed URLs are valid for a limited time: check the clock of this machine, " +
			"and how long the registry's URLs are valid"
	case status.ObjectStore && unauthorized:
		hint = objectStoreHint
	case unauthorized && u.Scheme == "https" && !has[*redirected](err) && !status.Credentials:
		hint = c.archiveTokenHint(ctx, u)
	}
	if hint != "" {
		failed.Err = sources.WithHint(failed.Err, "%s", hint)
	}
	return err
}

const objectStoreHint = "object stores also return this for files that do not exist"

// credentialsHint is what to do about an answer 401 or 403 to a request with the token of a host, or without one where
// none is configured.
func (c *Client) credentialsHint(asked *url.URL, r *Request, status *StatusError) string {
	of := r.TokenOf
	if of == "" {
		of, _ = hostOf(asked)
	}
	at, err := url.Parse(status.URL)
	hint := ""
	switch {
	case err != nil:
		return ""
	case status.ObjectStore && status.Code == http.StatusForbidden:
		return objectStoreHint + ": " + cmp.Or(r.MayBeMissing, "grant readers the right to list the bucket")
	case !sameOrigin(asked, at):
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

// archiveTokenHint is how to send a token with requests for archives to the host of u.
func (c *Client) archiveTokenHint(ctx context.Context, u *url.URL) string {
	option := fmt.Sprintf("add host %q { send_token_to_archives = true } to %s", u.Host, c.opts.HostsFile)
	host, err := hostOf(u)
	if err != nil {
		return ""
	}
	if _, ok, err := c.token(ctx, host); ok || err != nil {
		return fmt.Sprintf("if archives of %s need its token, %s", u.Host, option)
	}
	hint := fmt.Sprintf("if archives of %s need a token, %s", u.Host, c.opts.TokenHint(host, false))
	if c.hostOptions(u).TokenForArchives {
		return hint
	}
	return hint + "; and " + option
}

// tokenHint is the default of [Options].TokenHint.
func tokenHint(host sources.Host, sent bool) string {
	if sent {
		return fmt.Sprintf("check that the token for %s is valid", host)
	}
	return fmt.Sprintf("configure credentials for %s", host)
}
