package bucket

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// metadataService is the address of the metadata service of EC2. It is variable for tests.
var metadataService = "http://169.254.169.254"

// request sends a request for credentials, and returns the body of the answer. Errors don't contain the message in it, which may
// repeat secrets.
func (c *chain) request(ctx context.Context, over *fetch.Client, limit time.Duration, method, target string, header http.Header, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: no answer within %s", fetch.ErrStalled, limit))
	defer cancel()
	w := fetch.Write{Method: method, URL: target, Header: header, Limit: maxCredentials, Tries: 1}
	if body != "" {
		w.Body, w.Size = strings.NewReader(body), int64(len(body))
	}
	w.Check = func(reply *fetch.Reply) error {
		if reply.Status != http.StatusOK {
			return reply.Refused()
		}
		return nil
	}
	reply, err := over.Do(ctx, w)
	refusal := refusalIn(err)
	switch {
	case refusal != nil && len(refusal.Codes) > 0:
		return nil, fmt.Errorf("%w (%s)", &fetch.StatusError{Code: refusal.Code}, refusal.Codes[0])
	case refusal != nil:
		return nil, &fetch.StatusError{Code: refusal.Code}
	case err != nil:
		return nil, err
	}
	return reply.Body, nil
}

// assumeRole exchanges the token of an identity provider for the credentials of a role.
func (c *chain) assumeRole(ctx context.Context, tokenFile, role, session, origin string) (found, error) {
	token, err := readFile(tokenFile)
	if err != nil {
		return found{}, failed(origin, err)
	}
	c.secrets.Add(strings.TrimSpace(string(token)))
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName": {first(session, "larder")}, "WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	host := "sts.amazonaws.com"
	if region := c.region(); validRegion(region) {
		host = strings.Replace(awsHost(region), "s3.", "sts.", 1)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	answer, err := c.request(ctx, c.client, roleTimeout, http.MethodPost, "https://"+host+"/", header, form.Encode())
	if err != nil {
		return found{}, sources.WithHint(failed(origin, err), "check that the role %s trusts the token in %s", role, tokenFile)
	}
	var result struct {
		Credentials struct {
			AccessKeyID     string `xml:"AccessKeyId"`
			SecretAccessKey string
			SessionToken    string
			Expiration      time.Time
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(answer, &result); err != nil {
		return found{}, failed(origin, errors.New("the answer can't be read"))
	}
	got := result.Credentials
	return found{Keys{got.AccessKeyID, got.SecretAccessKey, got.SessionToken}, got.Expiration, origin}.complete()
}

// roleJSON is the answer of a service for the credentials of a role, and that of a program.
type roleJSON struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	Token           string
	SessionToken    string // of a program
	Expiration      time.Time
}

func parseRole(answer []byte, origin string) (found, error) {
	var role roleJSON
	if err := json.Unmarshal(answer, &role); err != nil {
		return found{}, failed(origin, errors.New("the answer is not valid JSON")) // the error might quote it
	}
	return found{Keys{role.AccessKeyID, role.SecretAccessKey, first(role.Token, role.SessionToken)}, role.Expiration, origin}.complete()
}

// container returns the credentials of a container of ECS or EKS.
func (c *chain) container(ctx context.Context) (found, error) {
	const origin = "the container"
	if c.env.ContainerURL == "" {
		return found{}, nil
	}
	u, err := url.Parse(c.env.ContainerURL)
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && local(u.Hostname())) {
		return found{}, failed(origin, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither an https URL nor an address of this machine"))
	}
	token := c.env.ContainerToken
	if c.env.ContainerTokenFile != "" {
		text, err := readFile(c.env.ContainerTokenFile)
		if err != nil {
			return found{}, failed(origin, err)
		}
		token = strings.TrimSpace(string(text))
	}
	c.secrets.Add(token)
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", token)
	}
	answer, err := c.request(ctx, c.direct, roleTimeout, http.MethodGet, u.String(), header, "")
	if err != nil {
		return found{}, failed(origin, err)
	}
	return parseRole(answer, origin)
}

// local reports whether a host is this machine, or an address at which container services answer on it.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (ip.IsLoopback() || ip == netip.MustParseAddr("169.254.170.2") ||
		ip == netip.MustParseAddr("169.254.170.23") || ip == netip.MustParseAddr("fd00:ec2::23"))
}

// metadata returns the credentials of the role of an EC2 instance. On other machines, there is no answer, and so no
// credentials.
func (c *chain) metadata(ctx context.Context) (found, error) {
	const origin = "the EC2 instance"
	if c.env.NoMetadata {
		return found{}, nil
	}
	get := func(method, path string, header http.Header) (string, error) {
		answer, err := c.request(ctx, c.direct, metadataTimeout, method, metadataService+"/latest/"+path, header, "")
		return strings.TrimSpace(string(answer)), err
	}
	token, err := get(http.MethodPut, "api/token", http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}})
	if err != nil || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return found{}, nil //nolint:nilerr // not on EC2
	}
	header := func() http.Header { return http.Header{"X-Aws-Ec2-Metadata-Token": {token}} }
	const path = "meta-data/iam/security-credentials/"
	roles, err := get(http.MethodGet, path, header())
	role, _, _ := strings.Cut(roles, "\n")
	if err != nil || role == "" {
		return found{}, nil //nolint:nilerr // the instance has no role
	}
	answer, err := get(http.MethodGet, path+url.PathEscape(strings.TrimSpace(role)), header())
	if err != nil {
		return found{}, failed(origin, err)
	}
	return parseRole([]byte(answer), origin)
}
