package cliconfig_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestAWSVariables(t *testing.T) {
	usual := bucket.Environment{CredentialsFile: "/home/me/.aws/credentials", ConfigFile: "/home/me/.aws/config"}
	for _, tt := range []struct {
		name      string
		variables []string
		change    func(*bucket.Environment)
	}{
		{"nothing", nil, func(*bucket.Environment) {}},
		{"keys", []string{"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=key", "AWS_SESSION_TOKEN=token"}, func(a *bucket.Environment) {
			a.AccessKeyID, a.SecretAccessKey, a.SessionToken = "id", "key", "token"
		}},
		{"files", []string{"AWS_PROFILE=ci", "AWS_SHARED_CREDENTIALS_FILE=~/keys", "AWS_CONFIG_FILE=conf/aws", "AWS_CA_BUNDLE=/ca.pem"}, func(a *bucket.Environment) {
			a.Profile, a.CredentialsFile, a.ConfigFile, a.CABundle = "ci", "/home/me/keys", "/start/conf/aws", "/ca.pem"
		}},
		{"region", []string{"AWS_DEFAULT_REGION=eu-west-1"}, func(a *bucket.Environment) { a.Region = "eu-west-1" }},
		{"regions", []string{"AWS_DEFAULT_REGION=eu-west-1", "AWS_REGION=us-west-2"}, func(a *bucket.Environment) { a.Region = "us-west-2" }},
		{"endpoints", []string{"AWS_ENDPOINT_URL=https://a", "AWS_ENDPOINT_URL_S3=https://b"}, func(a *bucket.Environment) { a.Endpoint = "https://b" }},
		{"identity", []string{"AWS_WEB_IDENTITY_TOKEN_FILE=/t", "AWS_ROLE_ARN=arn", "AWS_ROLE_SESSION_NAME=s"}, func(a *bucket.Environment) {
			a.TokenFile, a.RoleARN, a.SessionName = "/t", "arn", "s"
		}},
		{"container", []string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/v2/x", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://localhost/y"}, func(a *bucket.Environment) {
			a.ContainerURL = "http://169.254.170.2/v2/x"
		}},
		{"pod", []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://localhost/y", "AWS_CONTAINER_AUTHORIZATION_TOKEN=t", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=/f"}, func(a *bucket.Environment) {
			a.ContainerURL = "http://localhost/y"
		}},
		{"no metadata", []string{"AWS_EC2_METADATA_DISABLED=True"}, func(a *bucket.Environment) { a.NoMetadata = true }},
	} {
		want := usual
		tt.change(&want)
		sourcetest.Equal(t, mustLoad(t, linux(nil, tt.variables...), terraform).AWS, want, tt.name)
	}
}

// Secrets in the variables are never shown.
func TestAWSSecrets(t *testing.T) {
	var secrets sources.Secrets
	m := linux(nil, "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SESSION_TOKEN=FwoGZXIvYXdzEXAMPLE", "AWS_CONTAINER_AUTHORIZATION_TOKEN=Basic dG9rZW46c2VjcmV0")
	cliconfig.Load(t.Context(), m, terraform, cliconfig.Options{Secrets: &secrets})
	got := secrets.Redact("a wJalrXUtnFEMI/K7MDENG b FwoGZXIvYXdzEXAMPLE c dG9rZW46c2VjcmV0 d")
	sourcetest.Equal(t, got, "a … b … c … d")
}

// Each variable of AWS that is read is an input. Secrets and URLs are not shown.
func TestAWSInputs(t *testing.T) {
	read := regexp.MustCompile(`"(AWS_\w+)"`).FindAllStringSubmatch(string(sourcetest.ReadFile(t, "variables.go")), -1)
	sourcetest.Require(t, len(read) > 15, "found %d variables", len(read))
	for _, match := range read {
		name := match[1]
		inputs := mustLoad(t, linux(nil, name+"=https://me:hunter2@host"), terraform).InputVariables()
		i := slices.IndexFunc(inputs, func(in cliconfig.Input) bool { return in.Name == name })
		sourcetest.Require(t, i >= 0 && inputs[i].State != "" && inputs[i].Usual, "%s is no input", name)
		secret := regexp.MustCompile("KEY|TOKEN$|UR[IL]").MatchString(name)
		sourcetest.Equal(t, inputs[i].State == "set", secret, name)
	}
}
