package cliconfig_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func repository(t *testing.T, text string) oci.Repository {
	t.Helper()
	return sourcetest.Must(oci.ParseRepository(text))(t)
}

// auth returns the member auth of an entry in a Docker-style file.
func auth(login string) string {
	return fmt.Sprintf(`{"auth": %q}`, base64.StdEncoding.EncodeToString([]byte(login)))
}

// auths returns a Docker-style file with entries: NAME LOGIN NAME LOGIN….
func auths(entries string) string {
	var members []string
	words := strings.Fields(entries)
	for i := 0; i < len(words); i += 2 {
		members = append(members, fmt.Sprintf("%q: %s", words[i], auth(words[i+1])))
	}
	return `{"auths": {` + strings.Join(members, ", ") + "}}"
}

func TestOCICredentials(t *testing.T) {
	const podman, config, docker, old = "/run/me/containers/auth.json", "/home/me/.config/containers/auth.json", "/home/me/.docker/config.json", "/home/me/.dockercfg"
	block := func(label, user string) string {
		return fmt.Sprintf("oci_credentials %q { username = %q password = \"p\" }\n", label, user)
	}
	for _, tt := range []struct {
		name  string
		rc    string
		files map[string]string
		of    string
		want  string // USER:PASSWORD from PLACE, or ! and the error
	}{
		{"nothing", "", nil, "a.example/b/c", ""},

		// Blocks.
		{"a registry", block("a.example", "one"), nil, "a.example/b/c", "one:p from the oci_credentials block at /start/rc:1"},
		{"another registry", block("a.example", "one"), nil, "a.example:8443/b/c", ""},
		{"the longest path", block("a.example/b", "one") + block("a.example", "two") + block("a.example/b/c", "three"), nil, "a.example/b/c/d", "three:p from the oci_credentials block at /start/rc:3"},
		{"tokens", `oci_credentials "a.example" { access_token = "acc" refresh_token = "ref" }`, nil, "a.example/b", ": acc ref from the oci_credentials block at /start/rc:1"},
		{"before equal ones in files", block("a.example", "one"), map[string]string{podman: auths("a.example two:p")}, "a.example/b", "one:p from the oci_credentials block at /start/rc:1"},
		{"less specific than files", block("a.example", "one"), map[string]string{podman: auths("a.example/b two:p")}, "a.example/b", "two:p from " + podman},

		// Files in their order.
		{"Podman's first", "", map[string]string{podman: auths("a.example one:p"), config: auths("a.example two:p"), docker: auths("a.example three:p"), old: auths("a.example four:p")}, "a.example/b", "one:p from " + podman},
		{"the configuration directory", "", map[string]string{config: auths("a.example two:p"), docker: auths("a.example three:p"), old: auths("a.example four:p")}, "a.example/b", "two:p from " + config},
		{"the old one", "", map[string]string{old: auths("a.example four:p")}, "a.example/b", "four:p from " + old},
		{"the most specific of all files", "", map[string]string{podman: auths("a.example one:p"), old: auths("a.example/b four:p")}, "a.example/b", "four:p from " + old},
		{"no files", "oci_default_credentials { discover_ambient_credentials = false }", map[string]string{docker: auths("a.example one:p")}, "a.example/b", ""},
		{"an empty list", "oci_default_credentials { docker_style_config_files = [] }", map[string]string{docker: auths("a.example one:p")}, "a.example/b", ""},
		{"a list", `oci_default_credentials { docker_style_config_files = ["x.json", "/y.json"] }`,
			map[string]string{docker: auths("a.example one:p"), "/start/x.json": auths("b.example two:p"), "/y.json": auths("a.example three:p b.example four:p")}, "a.example/b", "three:p from /y.json"},

		// Entries.
		{"a colon in the password", "", map[string]string{docker: auths("a.example one:p:q")}, "a.example/b", "one:p:q from " + docker},
		{"neither user nor password", "", map[string]string{docker: auths("a.example : a.example/b one:p")}, "a.example/c", ""},
		{"entries without auth", "", map[string]string{docker: `{"auths": {"a.example": {}, "a.example/b": null, "b.example": {"auth": ""}, "c.example": {"auth": null, "identitytoken": "x"}}, "HttpHeaders": [1]}`}, "a.example/b", ""},
		{"names in any case", "", map[string]string{docker: `{"AUTHS": {"a.example": ` + auth("one:p") + `}}`}, "a.example/b", "one:p from " + docker},
		{"URLs", "", map[string]string{docker: auths("https://a.example one:p https://a.example/v1/ two:p a.example/ three:p a.example/b:latest four:p")}, "a.example/b", ""},
		{"Docker Hub by its URL", "", map[string]string{docker: auths("https://index.docker.io/v1/ one:p")}, "docker.io/a/b", ""},
		{"the old form", "", map[string]string{old: `{"a.example": ` + auth("one:p") + `}`}, "a.example/b", ""},

		// Problems.
		{"no colon, and nothing else", "", map[string]string{docker: auths("a.example one")}, "a.example/b", ""},
		{"no colon, and others", "", map[string]string{docker: auths("a.example one a.example/b two:p")}, "a.example/b", "!" + docker + `: the auth of "a.example" is not USER:PASSWORD in base64 (log in to a.example again)`},
		{"no colon in another entry", "", map[string]string{docker: auths("a.example one:p b.example two")}, "a.example/b", "one:p from " + docker},
		{"not JSON", "", map[string]string{podman: "{", docker: auths("a.example one:p")}, "a.example/b", ""},
		{"a huge file", "", map[string]string{podman: strings.Repeat(" ", 4<<20) + "{}", docker: auths("a.example one:p")}, "a.example/b", ""},
		{"a block in spite of a bad file", block("a.example", "one"), map[string]string{podman: "{"}, "a.example/b", "one:p from the oci_credentials block at /start/rc:1"},
		{"a listed file is missing", `oci_default_credentials { docker_style_config_files = ["no.json"] }` + "\n" + block("a.example", "one"), nil, "a.example/b",
			"!/start/rc:1: docker_style_config_files: /start/no.json: file does not exist (log in again, or leave the file out of the list)"},
		{"a listed file is not JSON", `oci_default_credentials { docker_style_config_files = ["no.json"] }`, map[string]string{"/start/no.json": "s3cret"}, "a.example/b",
			"!/start/rc:1: docker_style_config_files: /start/no.json: not valid JSON (log in again, or leave the file out of the list)"},
		{"a listed file with a wrong type", `oci_default_credentials { docker_style_config_files = ["no.json"] }`, map[string]string{"/start/no.json": `{"credsStore": 1234567}`}, "a.example/b",
			"!/start/rc:1: docker_style_config_files: /start/no.json: credsStore has a value of the wrong type (log in again, or leave the file out of the list)"},
		{"a listed file without base64", `oci_default_credentials { docker_style_config_files = ["no.json"] }`, map[string]string{"/start/no.json": `{"auths": {"a.example": {"auth": "s3cret!"}}}`}, "a.example/b",
			"!/start/rc:1: docker_style_config_files: /start/no.json: the auth of an entry in auths is not in base64 (log in again, or leave the file out of the list)"},

		// Helpers that can't run, because PATH is empty.
		{"a helper", `oci_credentials "a.example" { docker_credentials_helper = "pass" }`, nil, "a.example/b", noDockerHelper("pass", "the oci_credentials block at /start/rc:1")},
		{"the default helper", `oci_default_credentials { docker_credentials_helper = "pass" }`, map[string]string{docker: `{"credsStore": "desktop"}`}, "a.example/b", noDockerHelper("pass", "the oci_default_credentials block at /start/rc:1")},
		{"before the default helper", `oci_default_credentials { docker_credentials_helper = "pass" }`, map[string]string{docker: auths("a.example one:p")}, "a.example/b", "one:p from " + docker},
		{"the helper of a registry", "", map[string]string{docker: `{"credHelpers": {"a.example": "one", "b.example": "two"}, "credsStore": "three"}`}, "a.example/b", noDockerHelper("one", docker)},
		{"after an entry for the registry", "", map[string]string{docker: `{"credHelpers": {"a.example": "one"}, "auths": {"a.example": ` + auth("one:p") + "}}"}, "a.example/b", "one:p from " + docker},
		{"the helper of all registries", "", map[string]string{docker: `{"credHelpers": {"b.example": "two"}, "credsStore": "three"}`}, "a.example/b", noDockerHelper("three", docker)},
		{"the helper of all registries in an earlier file", "", map[string]string{docker: auths("a.example one:p"), podman: `{"credsStore": "three"}`}, "a.example/b", "one:p from " + docker},
		{"an empty name of a helper", "", map[string]string{docker: `{"credHelpers": {"a.example": ""}, "credsStore": ""}`}, "a.example/b", ""},
		{"a path of a helper", "", map[string]string{docker: `{"credsStore": "../x"}`}, "a.example/b",
			`!docker-credential-../x for a.example: "../x" can't be the name of a credential helper (log in to a.example again, or change ` + docker + ", which names the helper)"},
	} {
		files := map[string]string{"/start/rc": tt.rc}
		maps.Copy(files, tt.files)
		var secrets sources.Secrets
		m := linux(files, "TF_CLI_CONFIG_FILE=rc", "XDG_RUNTIME_DIR=/run/me")
		c, diags := cliconfig.Load(t.Context(), m, tofu, cliconfig.Options{Secrets: &secrets})
		sourcetest.Expect(t, len(diags) == 0, "%s: %v", tt.name, diags)
		found, err := c.OCICredentials(t.Context(), repository(t, tt.of))
		got := ""
		if found != (oci.Credentials{}) {
			got = found.Username + ":" + found.Password + " from " + found.From
			if found.AccessToken != "" {
				got = ": " + found.AccessToken + " " + found.RefreshToken + " from " + found.From
			}
		}
		if err != nil {
			got = "!" + hinted(err)
		}
		sourcetest.Equal(t, got, tt.want, tt.name)
		sourcetest.Expect(t, !strings.Contains(errText(err), "s3cret"), "%s: %v", tt.name, err)
	}
}

// hinted returns the text of an error with its hints.
func hinted(err error) string {
	text := err.Error()
	if hints := sources.Hints(err); len(hints) > 0 {
		text += " (" + strings.Join(hints, "; ") + ")"
	}
	return text
}

func noDockerHelper(name, from string) string {
	return "!docker-credential-" + name + " for a.example: PATH has no program of this name (install this credential helper, or change " + from + ", which names the helper)"
}

// The files that are read without a list, in order, by the entry that is found if all files have one, and so on.
func TestDockerStyleFilesOfSystems(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    func(files map[string]string, environ ...string) cliconfig.Machine
		env  string
		want string
	}{
		{"Linux", linux, "XDG_RUNTIME_DIR=/run/me", "/run/me/containers/auth.json /home/me/.config/containers/auth.json /home/me/.docker/config.json /home/me/.dockercfg"},
		{"Linux with variables", linux, "XDG_RUNTIME_DIR=/run/me XDG_CONFIG_HOME=/conf HOME=/h", "/run/me/containers/auth.json /conf/containers/auth.json /h/.docker/config.json /h/.dockercfg"},
		{"macOS", darwin, "XDG_RUNTIME_DIR=/run/me", "/Users/me/.config/containers/auth.json /Users/me/.docker/config.json /Users/me/.dockercfg"},
		{"Windows with variables", windows, `USERPROFILE=C:\p XDG_CONFIG_HOME=C:\conf`, `C:\p\.config\containers\auth.json C:\conf\containers\auth.json C:\p\.docker\config.json C:\p\.dockercfg`},
		{"FreeBSD", func(files map[string]string, environ ...string) cliconfig.Machine {
			m := linux(files, environ...)
			m.GOOS = "freebsd"
			return m
		}, "XDG_RUNTIME_DIR=/run/me", "/home/me/.config/containers/auth.json /home/me/.docker/config.json /home/me/.dockercfg"},
	} {
		left := map[string]string{}
		for _, path := range append(strings.Fields(tt.want), "/run/me/containers/auth.json", "/home/me/.docker/auth.json") {
			left[path] = auths("a.example one:p")
		}
		var got []string
		for {
			c := mustLoad(t, tt.m(left, strings.Fields(tt.env)...), tofu)
			found := sourcetest.Must(c.OCICredentials(t.Context(), repository(t, "a.example/b")))(t)
			if found.From == "" {
				break
			}
			got = append(got, found.From)
			delete(left, found.From)
		}
		sourcetest.Equal(t, strings.Join(got, " "), tt.want, tt.name)
	}
}

// dockerMachine returns a machine with Docker credential helpers on PATH, and a Docker-style file.
func dockerMachine(t *testing.T, scripts map[string]string, file string) cliconfig.Machine {
	t.Helper()
	sourcetest.SkipOnWindows(t, "the helpers are shell scripts")
	home := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		path := filepath.Join(home, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(content), mode))
	}
	for name, script := range scripts {
		write(name, "#!/bin/sh\n"+script, 0o755)
	}
	write("first/docker-credential-x", "not executable", 0o644)
	write(".docker/config.json", file, 0o600)
	m := cliconfig.This()
	m.Environ = []string{"HOME=" + home, "PATH=.:bin:" + home + "/first:" + home + "/bin:" + os.Getenv("PATH"), "LOG=" + filepath.Join(home, "log")}
	m.WorkDir = home
	return m
}

func TestDockerHelpers(t *testing.T) {
	const bad = "#!/bin/sh\necho the working directory >> \"$LOG\"\n"
	m := dockerMachine(t, map[string]string{
		"docker-credential-x": bad, // in the working directory
		"bin/docker-credential-x": `
read -r url
echo "$1 $url" >> "$LOG"
case "$url" in
https://user.example) echo '{"ServerURL": "https://user.example", "Username": "me", "Secret": "s3cret-of-me"}' ;;
https://token.example) echo '{"Username": "<token>", "Secret": "s3cret-token"}' ;;
https://none.example) echo 'credentials not found in native keychain'; exit 1 ;;
https://empty.example) echo '{}' ;;
https://zero.example) echo 'credentials not found in native keychain' ;;
https://fail.example) echo 'the keychain is locked'; echo 'more' >&2; exit 2 ;;
https://silent.example) echo 'no display' >&2; exit 2 ;;
https://leak.example) echo '{"Username": "me", "Secret": "s3cret-leak"}'; exit 2 ;;
https://list.example) echo '["s3cret-list"]' ;;
https://large.example) head -c 2000000 /dev/zero | tr '\0' ' '; echo '{}' ;;
esac`,
	}, `{"credsStore": "x"}`)
	var secrets sources.Secrets
	c, diags := cliconfig.Load(t.Context(), m, tofu, cliconfig.Options{Secrets: &secrets})
	sourcetest.Require(t, len(diags) == 0, "%v", diags)
	hint := func(registry string) string {
		return " (log in to " + registry + " again, or change " + m.WorkDir + "/.docker/config.json, which names the helper)"
	}
	const x = "docker-credential-x"
	tests := []struct {
		of   string
		want oci.Credentials
		err  string
	}{
		{"user.example", oci.Credentials{Username: "me", Password: "s3cret-of-me", From: x}, ""},
		{"token.example", oci.Credentials{RefreshToken: "s3cret-token", From: x}, ""},
		{"none.example", oci.Credentials{}, ""},
		{"empty.example", oci.Credentials{}, ""},
		{"zero.example", oci.Credentials{}, x + " for zero.example: answer is not a JSON object with Username and Secret" + hint("zero.example")},
		{"fail.example", oci.Credentials{}, x + " for fail.example: exit status 2: the keychain is locked" + hint("fail.example")},
		{"silent.example", oci.Credentials{}, x + " for silent.example: exit status 2: no display" + hint("silent.example")},
		{"leak.example", oci.Credentials{}, x + " for leak.example: exit status 2" + hint("leak.example")},
		{"list.example", oci.Credentials{}, x + " for list.example: answer is not a JSON object with Username and Secret" + hint("list.example")},
		{"large.example", oci.Credentials{}, x + " for large.example: answer is larger than 1048576 bytes" + hint("large.example")},
	}
	for range 2 { // each is run once
		for _, tt := range tests {
			for _, name := range []string{"/a", "/b"} {
				found, err := c.At("/else").OCICredentials(t.Context(), repository(t, tt.of+name))
				got := ""
				if err != nil {
					got = hinted(err)
				}
				sourcetest.Expect(t, found == tt.want && got == tt.err, "%s: %+v, %q", tt.of, found, got)
			}
		}
	}
	var want strings.Builder
	for _, tt := range tests {
		fmt.Fprintf(&want, "get https://%s\n", tt.of)
	}
	sourcetest.Equal(t, string(sourcetest.ReadFile(t, filepath.Join(m.WorkDir, "log"))), want.String(), "the helper was run as")
	shown := secrets.Redact("s3cret-of-me s3cret-token " + base64.StdEncoding.EncodeToString([]byte("me:s3cret-of-me")))
	sourcetest.Equal(t, shown, "… … …")
}

// Many callers at a time share one run.
func TestDockerHelperRunsOnce(t *testing.T) {
	m := dockerMachine(t, map[string]string{"bin/docker-credential-x": `
echo run >> "$LOG"
sleep 0.1
echo '{"Username": "me", "Secret": "s3cret-p"}'`}, `{"credHelpers": {"a.example": "x"}}`)
	c := mustLoad(t, m, tofu)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			found, err := c.OCICredentials(t.Context(), oci.Repository{Registry: "a.example", Name: fmt.Sprint("b", i)})
			sourcetest.Expect(t, found.Password == "s3cret-p" && err == nil, "%+v, %v", found, err)
		})
	}
	all.Wait()
	sourcetest.Equal(t, string(sourcetest.ReadFile(t, filepath.Join(m.WorkDir, "log"))), "run\n")
}

func TestSecretsOfOCIRegistries(t *testing.T) {
	var secrets sources.Secrets
	m := rc("oci_credentials \"a.example\" { username = \"me\" password = \"password-1\" }\noci_credentials \"b.example\" { access_token = \"token-1234\" refresh_token = \"token-5678\" }")
	m.Files.(disk).files[key("/home/me/.docker/config.json")] = newDisk(map[string]string{"x": auths("c.example you:password-2")}).files["x"]
	c, diags := cliconfig.Load(t.Context(), m, tofu, cliconfig.Options{Secrets: &secrets})
	sourcetest.Require(t, len(diags) == 0, "%v", diags)
	sourcetest.Must(c.OCICredentials(t.Context(), repository(t, "d.example/x")))(t)
	for _, secret := range []string{"password-1", "token-1234", "token-5678", "password-2"} {
		sourcetest.Equal(t, secrets.Redact("x "+secret), "x …", secret)
	}
	for _, login := range []string{"me:password-1", "you:password-2"} {
		sourcetest.Equal(t, secrets.Redact("x "+base64.StdEncoding.EncodeToString([]byte(login))), "x …", login)
	}
}

func TestOCIHint(t *testing.T) {
	const docker = "/home/me/.docker/config.json"
	const add = `add oci_credentials "a.example" { username = "USER" password = "PASSWORD" } to /start/rc`
	const login = "log in with docker login a.example, podman login a.example or oras login a.example, or " + add
	helper := dockerMachine(t, map[string]string{"bin/docker-credential-x": "echo '{}'"}, `{"credsStore": "x"}`)
	file := func(content string) map[string]string { return map[string]string{docker: content} }
	for _, tt := range []struct {
		name, rc string
		files    map[string]string
		of       string
		sent     bool
		want     string
	}{
		{"nothing", "", nil, "a.example/b", false, login},
		{"Docker Hub", "", nil, "docker.io/b", false, "log in with podman login docker.io, or " + strings.ReplaceAll(add, "a.example", "docker.io")},
		{"no files", "oci_default_credentials { discover_ambient_credentials = false }", nil, "a.example/b", false, add},
		{"a bad file", "", file("{"), "a.example/b", false, "repair or remove a file with an error, which makes Larder and OpenTofu ignore all files of Docker and Podman: " + docker + ": not valid JSON"},
		{"a bad entry", "", file(auths("a.example one")), "a.example/b", false, docker + `: the auth of "a.example" is not USER:PASSWORD in base64: ` + login},
		{"in a file", "", file(auths("a.example one:p")), "a.example/b", true, "check the credentials for a.example from " + docker + ": the registry refused them; they may have expired, or lack access to this repository"},
		{"not requested", "", file(auths("a.example one:p")), "a.example/b", false, "check the name of the repository: the registry refused the request before it got the credentials for a.example from " + docker},
		{"a helper", "", file(`{"credsStore": "x"}`), "a.example/b", true, "check the credentials for a.example from docker-credential-x (named by " + docker + "): the registry refused them; they may have expired, or lack access to this repository"},
		{"a helper without credentials", "", file(`{"credsStore": "x"}`), "a.example/b", false, "docker-credential-x (named by " + docker + ") has no credentials for a.example: log in with it, or " + login},
	} {
		files := map[string]string{"/start/rc": tt.rc}
		maps.Copy(files, tt.files)
		c := mustLoad(t, linux(files, "TF_CLI_CONFIG_FILE=rc"), tofu)
		sourcetest.Equal(t, c.OCIHint(repository(t, tt.of), tt.sent), tt.want, tt.name)
	}
	sourcetest.Expect(t, strings.HasPrefix(mustLoad(t, helper, tofu).OCIHint(repository(t, "a.example/b"), false), "docker-credential-x (named by "), "a hint")
}

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
			a.ContainerURL, a.ContainerToken, a.ContainerTokenFile = "http://localhost/y", "t", "/f"
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

const ociLogin = `username = "reader" password = "s3cret-p"`

// Terraform ignores the blocks, so errors in them count only if they are used.
func TestOCIBlocksForTerraform(t *testing.T) {
	const bad, more = "oci_credentials \"a.example\" {}\noci_default_credentials { docker_credentials_helper = 1.5 }", "oci_default_credentials {}"
	const want = `/start/rc:1:17: oci_credentials "a.example" has no credentials` + "\n/start/rc:2:55: docker_credentials_helper must be a string, not a fraction"
	files := map[string]string{"/start/rc": bad, "/own": `provider_installation { oci_mirror { repository_template = "r.example/x" include = ["a/b"] } }`}
	c := mustLoad(t, linux(files, "TF_CLI_CONFIG_FILE=rc"), terraform)
	_, err := c.OCICredentials(t.Context(), repository(t, "a.example/x"))
	sourcetest.Equal(t, errText(err), want)
	sourcetest.Equal(t, settingsText(c), "CLI configuration=/start/rc TF_CLI_CONFIG_FILE")
	_, diags := load(linux(files, "TF_CLI_CONFIG_FILE=rc", "LARDER_CONFIG=/own"), terraform)
	sourcetest.Equal(t, strings.ReplaceAll(brief(diags), "rc:", "/start/rc:"), want)

	files["/start/rc"] = `oci_credentials "a.example" { ` + ociLogin + " }\n" + more
	c = mustLoad(t, linux(files, "TF_CLI_CONFIG_FILE=rc", "LARDER_CONFIG=/own"), terraform)
	found, err := c.At("/else").OCICredentials(t.Context(), repository(t, "a.example/x"))
	sourcetest.Expect(t, err == nil && found.Password == "s3cret-p", "%+v, %v", found, err)
	sourcetest.Expect(t, strings.Contains(settingsText(c), "oci_credentials a.example=SECRET /start/rc:1"), "%s", settingsText(c))
}

// Labels are unique in all files, and there is one block with defaults.
func TestOCIBlocksInSeveralFiles(t *testing.T) {
	const dir = "/home/me/.terraform.d/"
	_, diags := load(linux(map[string]string{
		"/home/me/.tofurc": "oci_default_credentials {}\noci_credentials \"a.example\" { " + ociLogin + " }",
		dir + "a.tfrc":     "oci_credentials \"b.example\" { " + ociLogin + " }\noci_credentials \"a.example\" { " + ociLogin + " }",
		dir + "b.tfrc":     "oci_default_credentials {}",
	}), tofu)
	sourcetest.Equal(t, brief(diags), dir+"a.tfrc:2:17: second oci_credentials block for a.example; the first is at /home/me/.tofurc:2\n"+
		dir+"b.tfrc:1:1: second oci_default_credentials block; the first is at /home/me/.tofurc:1")
}

func TestOCISettingsAreNoted(t *testing.T) {
	c := mustLoad(t, rc("oci_credentials \"a.example/b\" { "+ociLogin+" }\noci_credentials \"a.example\" { docker_credentials_helper = \"pass\" }\n"+
		"oci_default_credentials {\n docker_style_config_files = [\"a.json\", \"/b.json\"]\n docker_credentials_helper = \"x\"\n}"), tofu)
	sourcetest.Equal(t, settingsText(c), "CLI configuration=/start/rc TF_CLI_CONFIG_FILE\n"+
		"oci_credentials a.example/b=SECRET /start/rc:1\noci_credentials a.example=docker-credential-pass /start/rc:2\n"+
		"docker_style_config_files=a.json, /b.json /start/rc:4\ndocker_credentials_helper=x /start/rc:5")
	c = mustLoad(t, rc("oci_default_credentials { docker_style_config_files = [] }"), tofu)
	sourcetest.Equal(t, settingsText(c), "CLI configuration=/start/rc TF_CLI_CONFIG_FILE\ndocker_style_config_files=none /start/rc:1")
}
