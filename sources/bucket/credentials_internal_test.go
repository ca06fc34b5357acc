package bucket

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go/aws-http-auth/credentials"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// keysOf returns what a chain finds, without the time until which it is valid.
func keysOf(t *testing.T, env Environment, over http.RoundTripper) (credentials.Credentials, error) {
	t.Helper()
	var secrets sources.Secrets
	c, err := newChain(Options{Env: env, Client: fetch.New(fetch.Options{Transport: over}), Secrets: &secrets})
	if err != nil {
		return credentials.Credentials{}, err
	}
	got, err := c.get(t.Context())
	if err != nil {
		sourcetest.Expect(t, !strings.Contains(secrets.Redact(err.Error()), "eyJ"), "shows the token: %v", err)
	}
	return keys(got.AccessKeyID, got.SecretAccessKey, got.SessionToken), err
}

// keys returns credentials.
func keys(id, secret, token string) credentials.Credentials {
	return credentials.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}
}

// withMetadata makes a server the metadata service of EC2.
func withMetadata(t *testing.T, handler http.HandlerFunc) {
	server := httptest.NewServer(handler)
	before := metadataService
	metadataService = server.URL
	t.Cleanup(func() {
		metadataService = before
		server.Close()
	})
}

// roleAnswer is an answer of a service for the credentials of a role.
func roleAnswer(id string, expires time.Time) string {
	text, _ := json.Marshal(map[string]any{"Code": "Success", "AccessKeyId": id, "SecretAccessKey": "secret-" + id, "Token": "token-" + id, "Expiration": expires})
	return string(text)
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	sourcetest.Check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const files = `
# Comments and other profiles
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key=default/secret+key=
[ci]
AWS_ACCESS_KEY_ID=AKIACI
aws_secret_access_key = ci-secret   # of the robot
aws_session_token = ci-token
[half]
aws_access_key_id = AKIAHALF
[nothing]
`

func TestProfiles(t *testing.T) {
	config := file(t, `
[default]
region = eu-west-1
s3 =
  addressing_style = path
  region = not-this-one
[profile ci]
region = us-west-2
aws_access_key_id = AKIAOTHER
[profile assumed]
role_arn = arn:aws:iam::1:role/a
source_profile = default
[profile sso]
sso_session = me
`)
	env := Environment{CredentialsFile: file(t, files), ConfigFile: config, NoMetadata: true}
	for _, tt := range []struct {
		profile string
		want    credentials.Credentials
		region  string
		err     string
		hint    string
	}{
		{"", keys("AKIADEFAULT", "default/secret+key=", ""), "eu-west-1", "", ""},
		{"ci", keys("AKIACI", "ci-secret", "ci-token"), "us-west-2", "", ""},
		{"half", credentials.Credentials{}, "", `credentials of the profile "half": the access key or the secret key is missing`, ""},
		{"nothing", credentials.Credentials{}, "", "", ""},
		{"absent", credentials.Credentials{}, "", `credentials of the profile "absent": it has no keys in`, "--profile absent"},
		{"assumed", credentials.Credentials{}, "", `the profile "assumed": it has no keys in`, `eval "$(aws configure export-credentials --profile assumed --format env)"`},
		{"sso", credentials.Credentials{}, "", `the profile "sso": it has no keys in`, "export-credentials"},
	} {
		env.Profile = tt.profile
		got, err := keysOf(t, env, nil)
		if err == nil {
			sourcetest.Equal(t, got, tt.want, tt.profile)
		}
		sourcetest.Expect(t, (err == nil) == (tt.err == "") && strings.Contains(fmt.Sprint(err), tt.err), "%s: %v", tt.profile, err)
		sourcetest.Expect(t, strings.Contains(fmt.Sprint(sources.Hints(err)), tt.hint), "%s: hints %q", tt.profile, sources.Hints(err))
		c := sourcetest.Must(newChain(Options{Env: env}))(t)
		sourcetest.Equal(t, c.Region, tt.region, tt.profile)
	}
	// Without files, there are no credentials. A file that can't be read is an error.
	got, err := keysOf(t, Environment{CredentialsFile: filepath.Join(t.TempDir(), "a"), NoMetadata: true}, nil)
	sourcetest.Expect(t, got == credentials.Credentials{} && err == nil, "%v, %v", got, err)
	_, err = keysOf(t, Environment{CredentialsFile: t.TempDir(), NoMetadata: true}, nil)
	sourcetest.Expect(t, err != nil, "reads a directory")
}

func TestKeysInVariables(t *testing.T) {
	env := Environment{AccessKeyID: "AKIAENV", SecretAccessKey: "secret", SessionToken: "token", CredentialsFile: file(t, files)}
	got := sourcetest.Must(keysOf(t, env, nil))(t)
	sourcetest.Equal(t, got, keys("AKIAENV", "secret", "token"))
	env.SecretAccessKey = ""
	_, err := keysOf(t, env, nil)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "the secret key is missing"), "got %v", err)
}

func TestCredentialProcess(t *testing.T) {
	sourcetest.SkipOnWindows(t, "the program is cat")
	answer := file(t, strings.Replace(roleAnswer("AKIAPROC", time.Now().Add(time.Hour)), `"Token"`, `"SessionToken"`, 1))
	run := func(command string) (credentials.Credentials, error) {
		return keysOf(t, Environment{ConfigFile: file(t, "[default]\ncredential_process = "+command), NoMetadata: true}, nil)
	}
	got, err := run(`true;cat "` + answer + `"; # a comment`)
	sourcetest.Check(t, err)
	sourcetest.Equal(t, got, keys("AKIAPROC", "secret-AKIAPROC", "token-AKIAPROC"))
	for _, command := range []string{"false", "echo secret-text", `cat "open`, "'", "/no/such/program"} {
		_, err := run(command)
		sourcetest.Expect(t, err != nil && !strings.Contains(err.Error(), "secret-text"), "%s: %v", command, err)
	}
}

// A roundTripper answers requests without a network.
type roundTripper struct {
	answer func(*http.Request) (*http.Response, error)
}

func (r *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r.answer(req) }

func TestWebIdentity(t *testing.T) {
	env := Environment{TokenFile: file(t, "eyJ.token.sig"), RoleARN: "arn:aws:iam::1:role/a", Region: "eu-west-1", CredentialsFile: file(t, files)}
	var form url.Values
	status, body := 200, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>ASIAWEB</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`
	sts := &roundTripper{func(req *http.Request) (*http.Response, error) {
		sourcetest.Equal(t, req.URL.String(), "https://sts.eu-west-1.amazonaws.com")
		text, _ := io.ReadAll(req.Body)
		form, _ = url.ParseQuery(string(text))
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}}
	got := sourcetest.Must(keysOf(t, env, sts))(t)
	sourcetest.Equal(t, got, keys("ASIAWEB", "s", "t"))
	sourcetest.Equal(t, form.Get("WebIdentityToken"), "eyJ.token.sig")
	sourcetest.Equal(t, form.Get("RoleSessionName"), "larder")
	roleless := env
	roleless.RoleARN = "" // the library would send the token elsewhere
	_, err := keysOf(t, roleless, &roundTripper{func(req *http.Request) (*http.Response, error) {
		t.Errorf("request for %s", req.URL)
		return nil, io.ErrUnexpectedEOF
	}})
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "AWS_ROLE_ARN is missing"), "got %v", err)
	status, body = 403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>eyJ.token.sig</Message></Error></ErrorResponse>"
	_, err = keysOf(t, env, sts)
	sourcetest.Expect(t, err != nil, "no error")
}

func TestContainer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "container-token" {
			w.WriteHeader(401)
			return
		}
		fmt.Fprint(w, roleAnswer("ASIAECS", time.Now().Add(time.Hour)))
	}))
	defer server.Close()
	env := Environment{ContainerURL: server.URL + "/v2", ContainerToken: "container-token"}
	got := sourcetest.Must(keysOf(t, env, nil))(t)
	sourcetest.Equal(t, got.AccessKeyID, "ASIAECS")
	env.ContainerTokenFile, env.ContainerToken = file(t, "container-token\n"), "the file takes precedence"
	got = sourcetest.Must(keysOf(t, env, nil))(t)
	sourcetest.Equal(t, got.AccessKeyID, "ASIAECS")
	env.ContainerTokenFile = file(t, "wrong")
	_, err := keysOf(t, env, nil)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "401"), "got %v", err)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"} {
		sourcetest.Expect(t, local(host), "%s is refused", host)
	}
	for _, address := range []string{"http://other.example/v2", "http://10.0.0.1/v2", "ftp://127.0.0.1", "http://127.0.0.1.other.example/"} {
		_, err = keysOf(t, Environment{ContainerURL: address}, nil)
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "FULL_URI"), "%s: %v", address, err)
	}
}

func TestMetadata(t *testing.T) {
	requests, expires := 0, time.Now().Add(time.Hour)
	withMetadata(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			fmt.Fprint(w, "session")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			w.WriteHeader(401)
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/":
			fmt.Fprint(w, "role\n")
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/role":
			fmt.Fprint(w, roleAnswer("ASIAEC2", expires))
		}
	})
	c := sourcetest.Must(newChain(Options{}))(t)
	for range 3 {
		got := sourcetest.Must(c.get(t.Context()))(t)
		sourcetest.Equal(t, got.AccessKeyID, "ASIAEC2")
	}
	sourcetest.Equal(t, requests, 3)
	c.found = false
	expires = time.Now().Add(time.Minute) // less than the margin
	for range 2 {
		sourcetest.Must(c.get(t.Context()))(t)
	}
	sourcetest.Equal(t, requests, 9)

	got, err := keysOf(t, Environment{NoMetadata: true}, nil)
	sourcetest.Expect(t, got == credentials.Credentials{} && err == nil && requests == 9, "%v, %v, %d requests", got, err, requests)
}

// Elsewhere than on EC2, the search ends soon, and requests are anonymous.
func TestNoMetadata(t *testing.T) {
	stop := make(chan struct{})
	withMetadata(t, func(http.ResponseWriter, *http.Request) { <-stop })
	defer close(stop)
	begun := time.Now()
	got, err := keysOf(t, Environment{}, nil)
	sourcetest.Expect(t, got == credentials.Credentials{} && err == nil, "%v, %v", got, err)
	sourcetest.Expect(t, time.Since(begun) < 3*time.Second, "took %s", time.Since(begun))
}

// The secrets that are read are shown nowhere.
func TestSecretsAreKnown(t *testing.T) {
	var secrets sources.Secrets
	c := sourcetest.Must(newChain(Options{Env: Environment{CredentialsFile: file(t, files)}, Secrets: &secrets}))(t)
	sourcetest.Must(c.get(t.Context()))(t)
	sourcetest.Equal(t, secrets.Redact("a default/secret+key= b"), "a … b")
}

// The region is in the names of hosts of AWS.
func TestRegionOf(t *testing.T) {
	for host, want := range map[string]string{
		"s3.eu-west-1.amazonaws.com": "eu-west-1", "s3-us-west-2.amazonaws.com": "us-west-2",
		"s3.dualstack.ap-southeast-1.amazonaws.com": "ap-southeast-1", "s3-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1",
		"s3.cn-north-1.amazonaws.com.cn":                       "cn-north-1",
		"bucket.vpce-1a2b3c4d.s3.us-east-1.vpce.amazonaws.com": "us-east-1",
		"s3.amazonaws.com":                                     "", "s3-external-1.amazonaws.com": "", "minio.example.org": "", "s3.eu-west-1.example.org": "",
	} {
		sourcetest.Equal(t, regionOf(host), want, host)
	}
}
