package bucket

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// metadataService is the address of the metadata service of EC2. It is variable for tests.
var metadataService = "http://169.254.169.254"

// ask sends a request for credentials once, and returns the body of the answer. Errors don't contain the message in it,
// which may repeat secrets.
func ask(
	ctx context.Context, over *fetch.Client, limit time.Duration, method, at string, header http.Header, body string,
) (answer []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: no answer within %s", fetch.ErrStalled, limit))
	defer cancel()
	call := fetch.Call{URL: at, Tries: 1, Limit: maxCredentials, Stay: true}
	err = over.Call(ctx, call, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header = header
		resp, err := over.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err = io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = &fetch.StatusError{Code: resp.StatusCode}
		}
		return err
	})
	refusal := refusalIn(err)
	switch {
	case refusal != nil && len(refusal.Codes) > 0:
		err = fmt.Errorf("%w (%s)", &fetch.StatusError{Code: refusal.Code}, refusal.Codes[0])
	case refusal != nil:
		err = &fetch.StatusError{Code: refusal.Code}
	}
	return answer, err
}

// assumeRole exchanges the token of an identity provider for the credentials of a role.
func (c *chain) assumeRole(ctx context.Context, tokenFile, role, session string) (credentials.Value, error) {
	text, err := readFile(tokenFile, maxCredentials)
	if err != nil {
		return credentials.Value{}, err
	}
	token := strings.TrimSpace(string(text))
	c.secrets.Add(token)
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {credentials.STSVersion}, "RoleArn": {role},
		"RoleSessionName": {first(session, "larder")}, "WebIdentityToken": {token},
	}
	host := "sts.amazonaws.com"
	if region := c.region(); validRegion(region) {
		host = strings.Replace(awsHost(region), "s3.", "sts.", 1)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	answer, err := ask(ctx, c.client, roleTimeout, http.MethodPost, "https://"+host+"/", header, form.Encode())
	if err != nil {
		return credentials.Value{}, sources.WithHint(err, "check that the role %s trusts the token in %s", role, tokenFile)
	}
	var result credentials.AssumeRoleWithWebIdentityResponse
	if err := xml.Unmarshal(answer, &result); err != nil {
		return credentials.Value{}, errors.New("the answer can't be read")
	}
	got := result.Result.Credentials
	return complete(credentials.Value{
		AccessKeyID: got.AccessKey, SecretAccessKey: got.SecretKey, SessionToken: got.SessionToken,
		Expiration: got.Expiration,
	})
}

// parseRole reads the answer of a service for the credentials of a role, or that of a program.
func parseRole(answer []byte) (credentials.Value, error) {
	var role struct {
		credentials.Value        // encoding/json ignores the case of names
		Token             string // SessionToken is that of a program
	}
	if err := json.Unmarshal(answer, &role); err != nil {
		return credentials.Value{}, errors.New("the answer is not valid JSON") // the error might quote it
	}
	role.SessionToken = first(role.Token, role.SessionToken)
	return complete(role.Value)
}

// process runs the program in credential_process.
func process(ctx context.Context, command string) (credentials.Value, error) {
	words, err := splitCommand(command)
	if err != nil {
		return credentials.Value{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, processTimeout, fmt.Errorf("no answer within %s", processTimeout))
	defer cancel()
	var out limited
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second // for its child processes
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return credentials.Value{}, fmt.Errorf("credential_process: %w", err)
	}
	return parseRole(out.Bytes())
}

// splitCommand splits a command line at spaces outside of quotes. A backslash is an ordinary character, as in paths of
// Windows.
func splitCommand(line string) ([]string, error) {
	quoted := regexp.MustCompile(`"[^"]*"|'[^']*'`)
	words := regexp.MustCompile(`([^\s"']|"[^"]*"|'[^']*')+`).FindAllString(line, -1)
	if strings.ContainsAny(quoted.ReplaceAllString(line, ""), `"'`) || len(words) == 0 {
		return nil, errors.New("credential_process has an unclosed quote, or no program")
	}
	for i, word := range words {
		words[i] = quoted.ReplaceAllStringFunc(word, func(text string) string { return text[1 : len(text)-1] })
	}
	return words, nil
}

// limited keeps the beginning of an output.
type limited struct{ bytes.Buffer }

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:max(0, min(len(p), maxCredentials-l.Len()))])
	return len(p), nil
}

// container returns the credentials of a container of ECS or EKS.
func (c *chain) container(ctx context.Context) (place string, got credentials.Value, err error) {
	place = "the container"
	if c.env.ContainerURL == "" {
		return place, got, nil
	}
	u, err := url.Parse(c.env.ContainerURL)
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && local(u.Hostname())) {
		err = errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither an https URL nor an address of this machine")
		return place, got, err
	}
	token := []byte(c.env.ContainerToken)
	if c.env.ContainerTokenFile != "" {
		if token, err = readFile(c.env.ContainerTokenFile, maxCredentials); err != nil {
			return place, got, err
		}
	}
	header := http.Header{}
	if token = bytes.TrimSpace(token); len(token) > 0 {
		c.secrets.Add(string(token))
		header.Set("Authorization", string(token))
	}
	answer, err := ask(ctx, c.direct, roleTimeout, http.MethodGet, u.String(), header, "")
	if err == nil {
		got, err = parseRole(answer)
	}
	return place, got, err
}

// local reports whether a host is this machine, or an address at which container services answer on it.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	services := []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
	return host == "localhost" || err == nil && (ip.IsLoopback() || slices.Contains(services, ip.String()))
}

// metadata returns the credentials of the role of an EC2 instance. On other machines, there is no answer, and so no
// credentials.
func (c *chain) metadata(ctx context.Context) (place string, got credentials.Value, err error) {
	place = "the EC2 instance"
	if c.env.NoMetadata {
		return place, got, nil
	}
	header := http.Header{}
	get := func(method, path string) (string, error) {
		answer, err := ask(ctx, c.direct, metadataTimeout, method, metadataService+path, header.Clone(), "")
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(string(answer)), nil
	}
	header.Set(credentials.TokenRequestTTLHeader, credentials.TokenTTL)
	token, _ := get(http.MethodPut, credentials.TokenPath)
	if token == "" || !sendable(token) { // not on EC2
		return place, got, nil
	}
	header = http.Header{}
	header.Set(credentials.TokenRequestHeader, token)
	roles, _ := get(http.MethodGet, credentials.DefaultIAMSecurityCredsPath)
	role, _, _ := strings.Cut(roles, "\n")
	if role == "" { // the instance has none
		return place, got, nil
	}
	answer, err := get(http.MethodGet, credentials.DefaultIAMSecurityCredsPath+url.PathEscape(strings.TrimSpace(role)))
	if err == nil {
		got, err = parseRole([]byte(answer))
	}
	return place, got, err
}
