package bucket

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go/aws-http-auth/credentials"
	"gopkg.in/ini.v1"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// metadataService is the address of the metadata service of EC2. It is variable for tests.
var metadataService = "http://169.254.169.254"

const (
	metadataTimeout = time.Second      // for the metadata service of EC2, which other machines don't have
	roleTimeout     = 10 * time.Second // for another service with credentials
	maxToken        = 256 << 10        // bytes, also of an answer with credentials
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

	ContainerURL       string // of the credentials of a container; empty outside of one
	ContainerToken     string // to send there
	ContainerTokenFile string // with this token instead
	NoMetadata         bool   // don't query the metadata service of EC2
}

// A chain finds credentials in the order of the tools of AWS: variables, the token of an identity provider, the
// profile, the container, and EC2. The first place that has any ends the search. An error there does too, because
// other credentials would be a surprise.
type chain struct {
	Environment        // or what the profile has instead
	process     string // credential_process of the profile
	place       string // where the credentials come from, for messages

	client  *fetch.Client
	direct  *fetch.Client // for addresses of this machine, without a proxy
	secrets *sources.Secrets

	mu    sync.Mutex // held during a search
	found bool
	last  credentials.Credentials // without an ID for anonymous requests
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
func (c *chain) get(ctx context.Context) (credentials.Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found && (c.last.Expires.IsZero() || time.Until(c.last.Expires) > expiryMargin) {
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
func (c *chain) search(ctx context.Context) (got credentials.Credentials, err error) {
	switch {
	case c.AccessKeyID != "" && c.SecretAccessKey != "":
		got.AccessKeyID, got.SecretAccessKey, got.SessionToken = c.AccessKeyID, c.SecretAccessKey, c.SessionToken
	case c.AccessKeyID+c.SecretAccessKey != "":
		return got, errors.New("the access key or the secret key is missing")
	case c.process != "":
		return process(ctx, c.process)
	case c.TokenFile != "":
		return c.webIdentity(ctx)
	case c.ContainerURL != "":
		return c.container(ctx)
	case !c.NoMetadata:
		got, _ = c.metadata(ctx) // or there is none
	case c.place != "":
		return got, sources.WithHint(fmt.Errorf("it has no keys in %s or %s", c.CredentialsFile, c.ConfigFile),
			`if the AWS CLI signs in, run: eval "$(aws configure export-credentials --profile %s --format env)"`, c.Profile)
	}
	return got, nil
}

// process runs the command in credential_process, in a shell as the SDK for Go of AWS.
func process(ctx context.Context, command string) (got credentials.Credentials, err error) {
	ctx, cancel := limited(ctx, processTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	if cmd.Err != nil { // on Windows
		cmd = exec.CommandContext(ctx, "cmd.exe", "/C", command)
	}
	cmd.WaitDelay = time.Second // for its child processes
	out, err := cmd.Output()
	if err = cmp.Or(context.Cause(ctx), err); err == nil {
		got, err = parseAnswer(out)
	}
	if err != nil {
		err = fmt.Errorf("credential_process: %w", err)
	}
	return got, err
}

// webIdentity returns the credentials of a role, for the token of an identity provider.
func (c *chain) webIdentity(ctx context.Context) (got credentials.Credentials, err error) {
	token, err := disk.ReadFile(c.TokenFile, maxToken)
	if c.RoleARN == "" {
		err = errors.New("AWS_ROLE_ARN is missing")
	}
	if err != nil {
		return got, fmt.Errorf("%s: %w", c.TokenFile, disk.Cause(err))
	}
	c.secrets.Add(string(token)) // an answer may repeat it
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {c.RoleARN},
		"RoleSessionName": {cmp.Or(c.SessionName, "larder")}, "WebIdentityToken": {string(token)},
	}
	host := strings.TrimSuffix("sts."+c.Region, ".") + ".amazonaws.com"
	if strings.HasPrefix(c.Region, "cn-") {
		host += ".cn"
	}
	ctx, cancel := limited(ctx, roleTimeout)
	defer cancel()
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	body, err := ask(ctx, c.client, http.MethodPost, "https://"+host, header, form.Encode())
	if err != nil {
		return got, err
	}
	var response struct {
		Credentials answer `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(body, &response); err != nil {
		return got, errNoKeys // the error may quote the answer
	}
	return response.Credentials.keys()
}

// container returns the credentials of a container of ECS or EKS.
func (c *chain) container(ctx context.Context) (got credentials.Credentials, err error) {
	u, err := url.Parse(c.ContainerURL)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())) {
		return got, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither an https URL nor an address of this machine")
	}
	header := http.Header{}
	token := c.ContainerToken
	if c.ContainerTokenFile != "" {
		data, err := disk.ReadFile(c.ContainerTokenFile, maxToken)
		if err != nil {
			return got, fmt.Errorf("%s: %w", c.ContainerTokenFile, disk.Cause(err))
		}
		token = strings.TrimSpace(string(data))
	}
	if token != "" {
		c.secrets.Add(token)
		header.Set("Authorization", token)
	}
	ctx, cancel := limited(ctx, roleTimeout)
	defer cancel()
	body, err := ask(ctx, c.direct, http.MethodGet, c.ContainerURL, header, "")
	if err != nil {
		return got, err
	}
	return parseAnswer(body)
}

// metadata returns the credentials of the role of an EC2 instance.
func (c *chain) metadata(ctx context.Context) (got credentials.Credentials, err error) {
	ctx, cancel := limited(ctx, metadataTimeout)
	defer cancel()
	header := http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}}
	session, err := ask(ctx, c.direct, http.MethodPut, metadataService+"/latest/api/token", header, "")
	if err != nil {
		return got, err
	}
	header = http.Header{"X-Aws-Ec2-Metadata-Token": {string(session)}}
	roles := metadataService + "/latest/meta-data/iam/security-credentials/"
	names, err := ask(ctx, c.direct, http.MethodGet, roles, header, "")
	if err != nil {
		return got, err
	}
	name, _, _ := strings.Cut(string(names), "\n") // an instance has at most one
	body, err := ask(ctx, c.direct, http.MethodGet, roles+url.PathEscape(name), header, "")
	if err != nil {
		return got, err
	}
	return parseAnswer(body)
}

func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
}

// ask returns what a service answers. It follows no redirects.
func ask(
	ctx context.Context, over *fetch.Client, method, at string, header http.Header, form string,
) (body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(form))
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := over.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, over.Refusal(req, resp)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxToken))
}

// An answer of a service or a program has credentials in JSON, whose names may have any case, or in XML.
type answer struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Token           string // name of SessionToken in the answers for containers and EC2
	Expiration      time.Time
}

var errNoKeys = errors.New("the answer contains no credentials")

// parseAnswer parses an answer in JSON. Its errors don't quote the answer.
func parseAnswer(text []byte) (got credentials.Credentials, err error) {
	var a answer
	if json.Unmarshal(text, &a) != nil {
		return got, errNoKeys
	}
	return a.keys()
}

func (a answer) keys() (got credentials.Credentials, err error) {
	if a.AccessKeyID == "" || a.SecretAccessKey == "" {
		return got, errNoKeys
	}
	got.AccessKeyID, got.SecretAccessKey, got.Expires = a.AccessKeyID, a.SecretAccessKey, a.Expiration
	got.SessionToken = cmp.Or(a.SessionToken, a.Token)
	return got, nil
}

// local reports whether a host is this machine, or an address at which container services answer on it.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	services := []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
	return host == "localhost" || err == nil && (ip.IsLoopback() || slices.Contains(services, ip.String()))
}
