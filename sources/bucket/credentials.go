package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// An Environment is where to find credentials: the values of the variables that the tools of AWS read. The two files
// that it names are read only when credentials are required.
type Environment struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string

	Profile         string // in the two files; empty means "default"
	CredentialsFile string // path; empty if there is none
	ConfigFile      string // path; empty if there is none

	Region   string // AWS_REGION, or else AWS_DEFAULT_REGION
	Endpoint string // URL of the store, not used by this package: AWS_ENDPOINT_URL_S3, or else AWS_ENDPOINT_URL

	TokenFile   string // file with a token of an identity provider, for RoleARN
	RoleARN     string
	SessionName string // for RoleARN; empty means "larder"

	ContainerURL       string // of the credentials of a container; empty outside of one
	ContainerToken     string // sent to ContainerURL
	ContainerTokenFile string // contains the token, and takes precedence over ContainerToken

	NoMetadata bool   // don't query the metadata service of EC2
	CABundle   string // path of a file with certificate authorities
}

// A chain finds credentials in the order of the tools of AWS: variables, the token of an identity provider, the
// profile, the container, and EC2. The first place that has any ends the search. An error there does too, because
// other credentials would be a surprise. The providers of minio-go read the environment, have no limits, and continue
// after errors.
type chain struct {
	env     Environment
	client  *fetch.Client
	direct  *fetch.Client // for addresses of this machine, without a proxy
	secrets *sources.Secrets

	mu    sync.Mutex // held during a search
	found bool
	last  credentials.Value // without an ID for anonymous requests
	place string            // where they come from, for messages
}

func newChain(opts Options) *chain {
	return &chain{env: opts.Env, client: opts.Client, direct: fetch.New(fetch.Options{}), secrets: opts.Secrets}
}

// get returns the credentials, which may have to be requested from a service.
func (c *chain) get(ctx context.Context) (credentials.Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found && (c.last.Expiration.IsZero() || time.Until(c.last.Expiration) > expiryMargin) {
		return c.last, nil
	}
	got, err := c.search(ctx)
	if err != nil || ctx.Err() != nil {
		return credentials.Value{}, first(ctx.Err(), err)
	}
	c.secrets.Add(got.SecretAccessKey, got.SessionToken)
	c.found, c.last = true, got
	return got, nil
}

// renew makes the next get search again, and reports whether that can make a difference.
func (c *chain) renew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	renewable := c.found && !c.last.Expiration.IsZero()
	c.found = c.found && !renewable
	return renewable
}

// origin returns where the credentials come from, for messages.
func (c *chain) origin() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return first(c.place, "the environment")
}

// search looks in all places.
func (c *chain) search(ctx context.Context) (credentials.Value, error) {
	for _, look := range []func(context.Context) (string, credentials.Value, error){
		c.variables, c.identity, c.profile, c.container, c.metadata,
	} {
		place, got, err := look(ctx)
		if err == nil && got.AccessKeyID+got.SecretAccessKey == "" {
			continue
		}
		if err == nil {
			got, err = complete(got)
		}
		if c.place = place; err != nil && place != "" {
			err = fmt.Errorf("credentials of %s: %w", place, err)
		}
		return got, err
	}
	return credentials.Value{}, nil
}

// complete refuses credentials that the transport can't send.
func complete(v credentials.Value) (credentials.Value, error) {
	switch {
	case v.AccessKeyID == "" || v.SecretAccessKey == "":
		return v, errors.New("the access key or the secret key is missing")
	case !sendable(v.AccessKeyID + v.SessionToken):
		return v, errors.New("they contain a space, a line break or another character that can't be sent")
	}
	return v, nil
}

// sendable reports whether a header can contain a text.
func sendable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// variables returns the credentials in variables.
func (c *chain) variables(context.Context) (string, credentials.Value, error) {
	e := c.env
	if (e.AccessKeyID == "") != (e.SecretAccessKey == "") {
		err := errors.New("only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set")
		return "", credentials.Value{}, sources.WithHint(err, "set both, or unset both")
	}
	keys := credentials.Value{AccessKeyID: e.AccessKeyID, SecretAccessKey: e.SecretAccessKey, SessionToken: e.SessionToken}
	return "AWS_ACCESS_KEY_ID", keys, nil
}

// identity returns the credentials for the token of an identity provider in variables.
func (c *chain) identity(ctx context.Context) (place string, got credentials.Value, err error) {
	if e := c.env; e.TokenFile != "" && e.RoleARN != "" {
		got, err = c.assumeRole(ctx, e.TokenFile, e.RoleARN, e.SessionName)
	}
	return "AWS_WEB_IDENTITY_TOKEN_FILE", got, err
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	data, err := disk.ReadFile(path, limit)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", path, disk.Cause(err))
	}
	return data, err
}

// section returns the settings of a section in an INI file. Indented lines belong to the setting before them, and are
// skipped. The library of minio-go would replace parts of some secrets.
func section(data []byte, name string) map[string]string {
	var settings map[string]string
	inside := false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch header, isHeader := strings.CutPrefix(text, "["); {
		case text == "", text[0] == '#', text[0] == ';':
		case isHeader:
			header, _, _ = strings.Cut(header, "]")
			if inside = strings.Join(strings.Fields(header), " ") == name; inside && settings == nil {
				settings = map[string]string{}
			}
		case inside && line[0] != ' ' && line[0] != '\t':
			key, value, _ := strings.Cut(text, "=")
			value, _, _ = strings.Cut(strings.TrimSpace(value), " #")
			settings[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return settings
}

// settings returns the settings of the profile. They are nil if neither file has it. Those in the file of credentials
// take precedence.
func (c *chain) settings() (all map[string]string, err error) {
	name := first(c.env.Profile, "default")
	files := []struct{ path, section string }{{c.env.ConfigFile, "profile " + name}, {c.env.CredentialsFile, name}}
	if name == "default" {
		files = append([]struct{ path, section string }{{c.env.ConfigFile, name}}, files...)
	}
	for _, file := range files {
		if file.path == "" {
			continue
		}
		data, err := readFile(file.path, maxCredentials)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if found := section(data, file.section); all == nil {
			all = found
		} else {
			maps.Copy(all, found)
		}
	}
	return all, nil
}

// region returns the region in the environment, or else that of the profile, or "". If a file can't be read, the
// search for credentials reports the error.
func (c *chain) region() string {
	settings, _ := c.settings()
	return first(c.env.Region, settings["region"])
}

// profile returns the credentials of the profile, or those that it describes.
func (c *chain) profile(ctx context.Context) (place string, got credentials.Value, err error) {
	name := first(c.env.Profile, "default")
	place = fmt.Sprintf("the profile %q", name)
	p, err := c.settings()
	if err != nil {
		return place, got, err
	}
	got = credentials.Value{
		AccessKeyID: p["aws_access_key_id"], SecretAccessKey: p["aws_secret_access_key"],
		SessionToken: p["aws_session_token"],
	}
	c.secrets.Add(got.SecretAccessKey, got.SessionToken)
	switch {
	case got.AccessKeyID != "" || got.SecretAccessKey != "":
	case p == nil && c.env.Profile != "":
		err = fmt.Errorf("%s does not exist in %s or %s", place, c.env.ConfigFile, c.env.CredentialsFile)
		return "", got, sources.WithHint(err,
			"correct AWS_PROFILE, or add the profile with: aws configure --profile %s", name)
	case p["role_arn"] != "" && p["web_identity_token_file"] != "":
		got, err = c.assumeRole(ctx, p["web_identity_token_file"], p["role_arn"], p["role_session_name"])
	case p["credential_process"] != "":
		got, err = process(ctx, p["credential_process"])
	case p["role_arn"]+p["sso_session"]+p["sso_start_url"]+p["sso_account_id"]+p["login_session"] != "":
		return "", got, sources.WithHint(fmt.Errorf("%s requires the AWS CLI to sign in", place),
			`run: eval "$(aws configure export-credentials --profile %s --format env)"`, name)
	}
	return place, got, err
}
