package bucket

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"gopkg.in/ini.v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// metadataService is the address of the metadata service of EC2. It is variable for tests.
var metadataService = credentials.DefaultIAMRoleEndpoint

const (
	metadataTimeout = time.Second      // for the metadata service of EC2, which other machines don't have
	roleTimeout     = 10 * time.Second // for another service with credentials
	maxToken        = 256 << 10        // bytes
	processTimeout  = time.Minute      // for the program in credential_process
	expiryMargin    = 5 * time.Minute  // credentials are renewed this long before they expire
)

// An Environment is where to find credentials: the values of the variables that the tools of AWS read. The two files
// that it names are read when a bucket is opened.
type Environment struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string

	Profile         string // in the two files; empty means "default"
	CredentialsFile string // path; empty if there is none
	ConfigFile      string // path; empty if there is none

	Region   string // AWS_REGION, or else AWS_DEFAULT_REGION
	Endpoint string // URL of the store, not used by this package: AWS_ENDPOINT_URL_S3, or else AWS_ENDPOINT_URL
	CABundle string // path of a file with certificate authorities, not used by this package

	TokenFile   string // file with a token of an identity provider, for RoleARN
	RoleARN     string
	SessionName string // for RoleARN; empty means "larder"

	ContainerURL string // of the credentials of a container; empty outside of one. minio-go reads the token for it
	NoMetadata   bool   // don't query the metadata service of EC2
}

// A chain finds credentials in the order of the tools of AWS: variables, the token of an identity provider, the
// profile, the container, and EC2. The first place that has any ends the search. An error there does too, because
// other credentials would be a surprise; the chain of minio-go continues.
type chain struct {
	Environment        // or what the profile has instead
	process     string // credential_process of the profile
	place       string // where the credentials come from, for messages

	client  *fetch.Client
	direct  *fetch.Client // for addresses of this machine, without a proxy
	secrets *sources.Secrets

	mu    sync.Mutex // held during a search
	found bool
	last  credentials.Value // without an ID for anonymous requests
}

func newChain(opts Options) (*chain, error) {
	c := &chain{Environment: opts.Env, client: opts.Client, direct: fetch.New(fetch.Options{}), secrets: opts.Secrets}
	p, err := c.settings()
	c.Region = cmp.Or(c.Region, p["region"])
	inProfile := func(setting string) bool { return p[setting] != "" }
	switch {
	case c.AccessKeyID+c.SecretAccessKey != "":
		c.place = "AWS_ACCESS_KEY_ID"
	case c.TokenFile != "":
		c.place = "AWS_WEB_IDENTITY_TOKEN_FILE"
	case p == nil && c.Profile != "", slices.ContainsFunc(profileSettings, inProfile):
		c.Profile = cmp.Or(c.Profile, "default")
		c.place = fmt.Sprintf("the profile %q", c.Profile)
		c.AccessKeyID, c.SecretAccessKey = p["aws_access_key_id"], p["aws_secret_access_key"]
		c.SessionToken, c.process = p["aws_session_token"], p["credential_process"]
		c.TokenFile, c.RoleARN, c.SessionName = p["web_identity_token_file"], p["role_arn"], p["role_session_name"]
		c.ContainerURL, c.NoMetadata = "", true
	case c.ContainerURL != "":
		c.place = "the container"
	case !c.NoMetadata:
		c.place = "the EC2 instance"
	}
	return c, err
}

// profileSettings are the settings that describe credentials. A profile with credentials has one of them.
var profileSettings = []string{
	"aws_access_key_id", "aws_secret_access_key", "credential_process",
	"role_arn", "sso_session", "sso_start_url", "sso_account_id", "login_session",
}

// settings returns the settings of the profile. They are nil if neither file has it. Those in the file of credentials
// take precedence.
func (e Environment) settings() (all map[string]string, err error) {
	form := ini.LoadOptions{Loose: true, InsensitiveKeys: true, AllowNestedValues: true}
	form.IgnoreContinuation, form.SpaceBeforeInlineComment = true, true
	read, err := ini.LoadSources(form, e.ConfigFile, e.CredentialsFile)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(e.Profile, "default")
	for _, title := range []string{name, "profile " + name} { // in the file with settings, it has that word
		if section, err := read.GetSection(title); err == nil {
			found := section.KeysHash()
			maps.Copy(found, all)
			all = found
		}
	}
	return all, nil
}

// get returns the credentials, which may have to be requested from a service.
func (c *chain) get(ctx context.Context) (credentials.Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found && (c.last.Expiration.IsZero() || time.Until(c.last.Expiration) > expiryMargin) {
		return c.last, nil
	}
	got, err := c.search(ctx)
	switch {
	case ctx.Err() != nil:
		return got, ctx.Err()
	case err != nil:
		return got, fmt.Errorf("credentials of %s: %w", c.place, err)
	}
	c.secrets.Add(got.SecretAccessKey, got.SessionToken)
	c.found, c.last = true, got
	return got, nil
}

// search returns the credentials in the environment or the profile, or those from the place that these name.
func (c *chain) search(ctx context.Context) (got credentials.Value, err error) {
	var service credentials.IAM
	switch {
	case c.AccessKeyID != "" && c.SecretAccessKey != "":
		got.AccessKeyID, got.SecretAccessKey, got.SessionToken = c.AccessKeyID, c.SecretAccessKey, c.SessionToken
	case c.AccessKeyID+c.SecretAccessKey != "":
		return got, errors.New("the access key or the secret key is missing")
	case c.process != "":
		return process(ctx, c.process)
	case c.TokenFile != "":
		token, err := disk.ReadFile(c.TokenFile, maxToken)
		if c.RoleARN == "" { // then the library would send the token elsewhere
			err = errors.New("AWS_ROLE_ARN is missing")
		}
		if err != nil {
			return got, fmt.Errorf("%s: %w", c.TokenFile, disk.Cause(err))
		}
		c.secrets.Add(string(token)) // an answer may repeat it
		service.Region, service.EKSIdentity.TokenFile, service.EKSIdentity.RoleARN = c.Region, c.TokenFile, c.RoleARN
		service.EKSIdentity.RoleSessionName = cmp.Or(c.SessionName, "larder")
		return ask(ctx, c.client, roleTimeout, service)
	case c.ContainerURL != "":
		u, err := url.Parse(c.ContainerURL)
		if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())) {
			return got, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither an https URL nor an address of this machine")
		}
		service.Container.CredentialsFullURI = c.ContainerURL
		return ask(ctx, c.direct, roleTimeout, service)
	case !c.NoMetadata:
		service.Endpoint = metadataService
		got, _ = ask(ctx, c.direct, metadataTimeout, service) // or there is none
	case c.place != "":
		return got, sources.WithHint(fmt.Errorf("it has no keys in %s or %s", c.CredentialsFile, c.ConfigFile),
			`if the AWS CLI signs in, run: eval "$(aws configure export-credentials --profile %s --format env)"`, c.Profile)
	}
	return got, nil
}

// process runs the command in credential_process, in a shell as the SDK for Go of AWS.
func process(ctx context.Context, command string) (got credentials.Value, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, processTimeout, fmt.Errorf("no answer within %s", processTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	if cmd.Err != nil { // on Windows
		cmd = exec.CommandContext(ctx, "cmd.exe", "/C", command)
	}
	cmd.WaitDelay = time.Second // for its child processes
	out, err := cmd.Output()
	err = cmp.Or(context.Cause(ctx), err)
	// Unmarshal ignores the case of names. Its error might quote the output.
	if err == nil && (json.Unmarshal(out, &got) != nil || got.AccessKeyID == "" || got.SecretAccessKey == "") {
		err = errors.New("the output is not credentials in JSON")
	}
	if err != nil {
		err = fmt.Errorf("credential_process: %w", err)
	}
	return got, err
}

// ask returns what a service answers, without following redirects.
func ask(
	ctx context.Context, over *fetch.Client, limit time.Duration, service credentials.IAM,
) (credentials.Value, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	client := &http.Client{Transport: over, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return service.RetrieveWithCredContext(&credentials.CredContext{Context: ctx, Client: client})
}

// local reports whether a host is this machine, or an address at which container services answer on it.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	services := []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
	return host == "localhost" || err == nil && (ip.IsLoopback() || slices.Contains(services, ip.String()))
}
