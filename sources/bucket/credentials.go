package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// Keys are the credentials that sign a request. The zero Keys are those of anonymous requests.
type Keys struct {
	ID, Secret string
	Token      string // of a session; empty if there is none
}

// An Environment is where to find credentials: the values of the variables that the tools of AWS read. Its fields are
// those of cliconfig.AWS, so one can be converted to the other.
type Environment struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string

	Profile         string // in the two files; empty means "default"
	CredentialsFile string // path; empty if there is none
	ConfigFile      string // path; empty if there is none

	Region   string
	Endpoint string // not used by this package

	TokenFile   string // file with a token of an identity provider, for RoleARN
	RoleARN     string
	SessionName string // for RoleARN; empty means "larder"

	ContainerURL       string // of the credentials of a container; empty outside of one
	ContainerToken     string // sent to ContainerURL
	ContainerTokenFile string // contains the token, and takes precedence over ContainerToken

	NoMetadata bool   // don't query the metadata service of EC2
	CABundle   string // path of a file with certificate authorities
}

// A found is an answer of one of the places in which credentials may be.
type found struct {
	Keys
	expires time.Time // zero means never
	origin  string    // for messages
}

// A chain finds credentials in the order of the tools of AWS: variables, the token of an identity provider, the
// profile, the container, and EC2. The first place that has any ends the search. An error there does too, because
// other credentials would be a surprise.
type chain struct {
	env     Environment
	client  *fetch.Client
	direct  *fetch.Client // for addresses of this machine, without a proxy
	secrets *sources.Secrets

	mu   sync.Mutex // held during a search
	last *found
}

func newChain(opts Options) *chain {
	return &chain{env: opts.Env, client: opts.Client, direct: fetch.New(fetch.Options{}), secrets: opts.Secrets}
}

// get returns the credentials, which may have to be requested from a service.
func (c *chain) get(ctx context.Context) (Keys, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && (c.last.expires.IsZero() || time.Until(c.last.expires) > expiryMargin) {
		return c.last.Keys, nil
	}
	got, err := c.search(ctx)
	if err != nil {
		return Keys{}, err
	}
	c.secrets.Add(got.Secret, got.Token)
	c.last = &got
	return got.Keys, nil
}

// renew makes the next get search again, and reports whether that can make a difference.
func (c *chain) renew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || c.last.expires.IsZero() {
		return false
	}
	c.last = nil
	return true
}

// origin returns where the credentials come from, for messages.
func (c *chain) origin() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return "the environment"
	}
	return c.last.origin
}

// search looks in all places.
func (c *chain) search(ctx context.Context) (found, error) {
	e := c.env
	if e.AccessKeyID != "" || e.SecretAccessKey != "" {
		if e.AccessKeyID == "" || e.SecretAccessKey == "" {
			return found{}, sources.WithHint(errors.New("only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set"), "set both, or unset both")
		}
		return found{Keys: Keys{e.AccessKeyID, e.SecretAccessKey, e.SessionToken}, origin: "AWS_ACCESS_KEY_ID"}.complete()
	}
	if e.TokenFile != "" && e.RoleARN != "" {
		return c.assumeRole(ctx, e.TokenFile, e.RoleARN, e.SessionName, "AWS_WEB_IDENTITY_TOKEN_FILE")
	}
	for _, place := range []func(context.Context) (found, error){c.profile, c.container, c.metadata} {
		got, err := place(ctx)
		if ctx.Err() != nil {
			return found{}, ctx.Err()
		}
		if err != nil || got.ID != "" {
			return got, err
		}
	}
	return found{}, nil
}

// complete refuses credentials that the transport can't send.
func (f found) complete() (found, error) {
	if f.ID == "" || f.Secret == "" {
		return found{}, failed(f.origin, errors.New("the access key or the secret key is missing"))
	}
	for _, text := range []string{f.ID, f.Token} {
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return found{}, failed(f.origin, errors.New("they contain a space, a line break or another character that can't be sent"))
		}
	}
	return f, nil
}

// failed returns the error of a place.
func failed(origin string, err error) error { return fmt.Errorf("credentials of %s: %w", origin, err) }
