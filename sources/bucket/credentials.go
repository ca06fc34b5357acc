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
	"runtime"
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
	env     Environment
	profile map[string]string // the settings of the profile; nil if neither file has it
	client  *fetch.Client
	direct  *fetch.Client // for addresses of this machine, without a proxy
	secrets *sources.Secrets

	mu    sync.Mutex // held during a search
	found bool
	last  credentials.Value // without an ID for anonymous requests
	place string            // where they come from, for messages
}

func newChain(opts Options) (c *chain, err error) {
	c = &chain{env: opts.Env, client: opts.Client, direct: fetch.New(fetch.Options{}), secrets: opts.Secrets}
	c.profile, err = opts.Env.settings()
	return c, err
}

// get returns the credentials, which may have to be requested from a service.
func (c *chain) get(ctx context.Context) (credentials.Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found && (c.last.Expiration.IsZero() || time.Until(c.last.Expiration) > expiryMargin) {
		return c.last, nil
	}
	got, err := c.search(ctx)
	if err == nil {
		c.secrets.Add(got.SecretAccessKey, got.SessionToken)
		c.found, c.last = true, got
	}
	return got, err
}

// origin returns where the credentials come from, for messages.
func (c *chain) origin() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.place, "the environment")
}

// search looks in all places.
func (c *chain) search(ctx context.Context) (got credentials.Value, err error) {
	e := c.env
	inProfile := func(setting string) bool { return c.profile[setting] != "" }
	switch {
	case e.AccessKeyID+e.SecretAccessKey != "":
		c.place = "AWS_ACCESS_KEY_ID"
		got.AccessKeyID, got.SecretAccessKey, got.SessionToken = e.AccessKeyID, e.SecretAccessKey, e.SessionToken
	case e.TokenFile != "":
		c.place = "AWS_WEB_IDENTITY_TOKEN_FILE"
		got, err = c.assumeRole(ctx, e.TokenFile, e.RoleARN, e.SessionName)
	case c.profile == nil && e.Profile != "", slices.ContainsFunc(profileSettings, inProfile):
		c.place = fmt.Sprintf("the profile %q", cmp.Or(e.Profile, "default"))
		got, err = c.fromProfile(ctx)
	case e.ContainerURL != "":
		c.place = "the container"
		got, err = c.container(ctx)
	case !e.NoMetadata:
		c.place = "the EC2 instance"
		got, _ = ask(ctx, c.direct, metadataTimeout, credentials.IAM{Endpoint: metadataService}) // or there is none
	}
	if err == nil && (got.AccessKeyID == "") != (got.SecretAccessKey == "") {
		err = errors.New("the access key or the secret key is missing")
	}
	if err != nil {
		err = fmt.Errorf("credentials of %s: %w", c.place, err)
	}
	return got, cmp.Or(err, ctx.Err())
}

// profileSettings are the settings that describe credentials. A profile with credentials has one of them.
var profileSettings = []string{
	"aws_access_key_id", "aws_secret_access_key", "credential_process",
	"role_arn", "sso_session", "sso_start_url", "sso_account_id", "login_session",
}

// settings returns the settings of the profile. They are nil if neither file has it. Those in the file of credentials
// take precedence.
func (e Environment) settings() (all map[string]string, err error) {
	form := ini.LoadOptions{Loose: true, InsensitiveKeys: true, AllowNestedValues: true, IgnoreContinuation: true}
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

// region returns the region in the environment, or else that of the profile, or "".
func (c *chain) region() string { return cmp.Or(c.env.Region, c.profile["region"]) }

// fromProfile returns the credentials in the settings of the profile, or those that they describe.
func (c *chain) fromProfile(ctx context.Context) (got credentials.Value, err error) {
	p := c.profile
	got.AccessKeyID, got.SecretAccessKey = p["aws_access_key_id"], p["aws_secret_access_key"]
	got.SessionToken = p["aws_session_token"]
	switch {
	case got.AccessKeyID+got.SecretAccessKey != "":
		return got, nil
	case p == nil:
		err = fmt.Errorf("it does not exist in %s or %s", c.env.ConfigFile, c.env.CredentialsFile)
		return got, sources.WithHint(err,
			"correct AWS_PROFILE, or add the profile with: aws configure --profile %s", c.env.Profile)
	case p["role_arn"] != "" && p["web_identity_token_file"] != "":
		return c.assumeRole(ctx, p["web_identity_token_file"], p["role_arn"], p["role_session_name"])
	case p["credential_process"] != "":
		return process(ctx, p["credential_process"])
	}
	return got, sources.WithHint(errors.New("it requires the AWS CLI to sign in"),
		`run: eval "$(aws configure export-credentials --profile %s --format env)"`, cmp.Or(c.env.Profile, "default"))
}

// process runs the command in credential_process, in a shell as the SDK for Go of AWS.
func process(ctx context.Context, command string) (got credentials.Value, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, processTimeout, fmt.Errorf("no answer within %s", processTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	if runtime.GOOS == "windows" {
		cmd = exec.CommandContext(ctx, "cmd.exe", "/C", command)
	}
	cmd.WaitDelay = time.Second // for its child processes
	out, err := cmd.Output()
	if err != nil {
		return got, fmt.Errorf("credential_process: %w", cmp.Or(context.Cause(ctx), err))
	}
	if json.Unmarshal(out, &got) != nil { // it ignores the case of names; its error might quote the output
		return got, errors.New("credential_process: the output is not valid JSON")
	}
	return got, nil
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
	got, err := service.RetrieveWithCredContext(&credentials.CredContext{Context: ctx, Client: client})
	if sent, ok := errors.AsType[*url.Error](err); ok {
		err = sent.Err
	}
	return got, err
}

// assumeRole exchanges the token of an identity provider for the credentials of a role.
func (c *chain) assumeRole(ctx context.Context, tokenFile, role, session string) (credentials.Value, error) {
	token, err := disk.ReadFile(tokenFile, maxToken)
	if role == "" {
		err = errors.New("AWS_ROLE_ARN is missing")
	}
	if err != nil {
		return credentials.Value{}, fmt.Errorf("%s: %w", tokenFile, disk.Cause(err))
	}
	c.secrets.Add(string(token)) // an answer may repeat it
	service := credentials.IAM{Region: c.region()}
	service.EKSIdentity.TokenFile, service.EKSIdentity.RoleARN = tokenFile, role
	service.EKSIdentity.RoleSessionName = cmp.Or(session, "larder")
	got, err := ask(ctx, c.client, roleTimeout, service)
	if err != nil {
		err = sources.WithHint(err, "check that the role %s trusts the token in %s", role, tokenFile)
	}
	return got, err
}

// container returns the credentials of a container of ECS or EKS.
func (c *chain) container(ctx context.Context) (got credentials.Value, err error) {
	u, err := url.Parse(c.env.ContainerURL)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())) {
		return got, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither an https URL nor an address of this machine")
	}
	service := credentials.IAM{}
	service.Container.CredentialsFullURI = c.env.ContainerURL
	return ask(ctx, c.direct, roleTimeout, service)
}

// local reports whether a host is this machine, or an address at which container services answer on it.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	services := []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
	return host == "localhost" || err == nil && (ip.IsLoopback() || slices.Contains(services, ip.String()))
}
