package cliconfig_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

const ociLogin = `username = "reader" password = "s3cret-p"`

// ociFiles are CLI configurations with blocks for OCI registries, and what Larder reports about them for OpenTofu. With
// differs, either OpenTofu or Larder accepts the file, but not both.
var ociFiles = []struct {
	src, want string
	differs   bool
}{
	{`oci_credentials "a.example" { ` + ociLogin + ` }`, "", false},
	{`oci_credentials "a.example:5000/team/app" { ` + ociLogin + ` more = 1 }`, "", false},
	{`oci_credentials "a.example" { Username = "reader" PASSWORD = "" }`, "", false},
	{`oci_credentials "a.example" { username = 12 password = 34 }`, "", false},
	{`oci_credentials "a.example" { access_token = "t0ken-a" refresh_token = "t0ken-r" }`, "", false},
	{`oci_credentials "a.example" { docker_credentials_helper = "pass" }`, "", false},
	{"oci_credentials \"a.example\" { " + ociLogin + " }\noci_credentials \"a.example/b\" { " + ociLogin + " }\noci_credentials \"A.example\" { " + ociLogin + " }", "", false},
	{`OCI_credentials "a.example" {}`, `warning: rc:1:1: "OCI_credentials" is not a setting and has no effect`, false},
	{`oci_credential "a.example" {}`, `warning: rc:1:1: "oci_credential" is not a setting and has no effect`, false},
	{`oci_credentials "a.example" { ` + ociLogin + ` usrename = "x" }`, `warning: rc:1:73: "usrename" is not a setting and has no effect`, false},
	{`{"oci_credentials": {"a.example": {"username": "reader", "password": "s3cret-p"}, "b.example": {"docker_credentials_helper": "x"}}}`, "", false},
	{`{"oci_credentials": [{"a.example": {"username": "reader", "password": "s3cret-p"}}]}`, "", false},

	{`oci_credentials "a.example" {}`, `rc:1:17: oci_credentials "a.example" has no credentials`, false},
	{`oci_credentials {}`, "rc:1:1: oci_credentials has no label", false},
	{`oci_credentials { ` + ociLogin + ` }`, "rc:1:19: oci_credentials has no label\nrc:1:39: oci_credentials has no label", false},
	{`oci_credentials "a.example" "b" { ` + ociLogin + ` }`, "rc:1:29: oci_credentials takes one label", false},
	{`oci_credentials = "a.example"`, "rc:1:19: oci_credentials must be a block with a label, not a string", false},
	{`oci_credentials = { ` + ociLogin + ` }`, "rc:1:21: oci_credentials has no label\nrc:1:41: oci_credentials has no label", false},
	{`oci_credentials "https://a.example/" { ` + ociLogin + ` }`, `rc:1:17: "https://a.example/" is a URL`, false},
	{`oci_credentials "a.example/" { ` + ociLogin + ` }`, `rc:1:17: "" is not the name of a repository`, false},
	{`oci_credentials "a.example/B" { ` + ociLogin + ` }`, `rc:1:17: "B" is not the name of a repository`, false},
	{`oci_credentials "a.example/b:latest" { ` + ociLogin + ` }`, `rc:1:17: "b:latest" has a tag, a digest or a port, which the name of a repository can't contain`, false},
	{`oci_credentials "a b" { ` + ociLogin + ` }`, `rc:1:17: "a b" is not the address of a registry`, false},
	{`oci_credentials "" { ` + ociLogin + ` }`, `rc:1:17: "" is not the address of a registry`, false},
	{`oci_credentials "a.example" { username = "reader" }`, "rc:1:17: username and password must be set together", false},
	{`oci_credentials "a.example" { password = "s3cret-p" }`, "rc:1:17: username and password must be set together", false},
	{`oci_credentials "a.example" { refresh_token = "t0ken-r" }`, "rc:1:17: access_token and refresh_token must be set together", false},
	{`oci_credentials "a.example" { access_token = "t0ken-a" }`, "rc:1:17: access_token and refresh_token must be set together", false},
	{`oci_credentials "a.example" { ` + ociLogin + ` docker_credentials_helper = "pass" }`, `rc:1:17: oci_credentials "a.example" has several kinds of credentials`, false},
	{`oci_credentials "a.example" { username = "reader" refresh_token = "t0ken-r" }`, `rc:1:17: oci_credentials "a.example" has several kinds of credentials`, false},
	{`oci_credentials "a.example" { username = "" password = "s3cret-p" }`, "rc:1:17: username is empty", true},
	{`oci_credentials "a.example" { access_token = "" refresh_token = "t0ken-r" }`, "rc:1:17: access_token is empty", true},
	{`oci_credentials "a.example" { username = ["reader"] password = "s3cret-p" }`, "rc:1:42: username must be a string, not a list", false},
	{`oci_credentials "a.example" { docker_credentials_helper = "" }`, `rc:1:17: "" can't be the name of a credential helper`, false},
	{`oci_credentials "a.example" { docker_credentials_helper = "../x" }`, `rc:1:17: "../x" can't be the name of a credential helper`, false},
	{`oci_credentials "a.example/b" { docker_credentials_helper = "pass" }`, "rc:1:17: a credential helper has credentials for a whole registry, not for a.example/b", false},
	{"oci_credentials \"a.example\" { " + ociLogin + " }\noci_credentials \"a.example\" { docker_credentials_helper = \"pass\" }",
		"rc:2:17: second oci_credentials block for a.example; the first is at /start/rc:1", false},
	{`{"oci_credentials": {}}`, "rc:1:2: oci_credentials has no label", false},
	{`{"oci_credentials": {"username": "reader", "password": "s3cret-p"}}`, "rc:1:22: oci_credentials has no label\nrc:1:44: oci_credentials has no label", false},

	{`oci_default_credentials {}`, "", false},
	{`oci_default_credentials { discover_ambient_credentials = false docker_credentials_helper = "pass" more = 1 }`, "", false},
	{`oci_default_credentials { docker_style_config_files = [] }`, "", false},
	{`oci_default_credentials { docker_style_config_files = ["/no/such.json", "auth.json"] discover_ambient_credentials = true }`, "", false},
	{`{"oci_default_credentials": {"discover_ambient_credentials": true, "docker_style_config_files": ["/a.json"], "docker_credentials_helper": "pass"}}`, "", false},
	{"oci_default_credentials {}\noci_default_credentials {}", "rc:2:1: second oci_default_credentials block; the first is at /start/rc:1", false},
	{`oci_default_credentials = {}`, "rc:1:1: oci_default_credentials must be a block without labels", false},
	{`oci_default_credentials "x" {}`, "rc:1:1: oci_default_credentials must be a block without labels", false},
	{`oci_default_credentials { discover_ambient_credentials = "false" }`, "rc:1:58: discover_ambient_credentials must be a boolean, not a string", false},
	{`oci_default_credentials { docker_style_config_files = "auth.json" }`, "rc:1:55: docker_style_config_files must be a list of strings, not a string", false},
	{`oci_default_credentials { docker_style_config_files = [true] }`, "rc:1:56: docker_style_config_files must contain only strings, not a boolean", false},
	{`oci_default_credentials { discover_ambient_credentials = false docker_style_config_files = [] }`,
		"rc:1:64: docker_style_config_files has no effect, because discover_ambient_credentials is false", false},
	{`oci_default_credentials { docker_credentials_helper = "" }`, `rc:1:55: "" can't be the name of a credential helper`, false},
	{`oci_default_credentials { docker_credentials_helper = "a/b" }`, `rc:1:55: "a/b" can't be the name of a credential helper`, false},

	{`provider_installation { oci_mirror { repository_template = "r.example/${namespace}/${type}" include = ["*/*"] } }`, "", false},
	{`provider_installation { oci_mirror { repository_template = "r.example/${namespace}-${type}" include = ["example.com/*/*", "*/*/*"] } }`, "", false},
	{`provider_installation { oci_mirror {} }`, "rc:1:25: oci_mirror has no repository_template", false},
	{`provider_installation { oci_mirror { repository_template = "r.example/${namespace}" include = ["*/*"] } }`,
		"rc:1:60: repository_template: it maps providers with a different type to the same repository", false},
	{`provider_installation { oci_mirror { repository_template = "r.example/x" include = ["a/b"] } }`, "", false},
	{`provider_installation { oci_mirror { repository_template = "r.example" include = ["a/b"] } }`, "rc:1:60: repository_template: it has no path after the host", true},
	{`provider_installation { oci_mirror { repository_template = "r.example/x${version}" include = ["a/b"] } }`, "rc:1:60: repository_template: there is no variable version", false},
	{`provider_installation { oci_mirror { repository_template = "r.example/X" include = ["a/b"] } }`, `rc:1:60: repository_template: "X" is not the name of a repository`, false},
}

func TestOCIBlocks(t *testing.T) {
	for _, tt := range ociFiles {
		_, diags := load(rc(tt.src), tofu)
		sourcetest.Equal(t, brief(diags), tt.want, tt.src)
		sourcetest.Expect(t, !strings.Contains(brief(diags), "s3cret"), "%s: %v", tt.src, diags)
	}
}

// OpenTofu refuses the same blocks.
func TestOCIBlocksInOpenTofu(t *testing.T) {
	sourcetest.EachProgram(t, func(t *testing.T, p sourcetest.Program) {
		if p.Engine != tofu {
			t.Skip("Terraform ignores these blocks")
		}
		for i := range ociFiles {
			ociAgrees(t, p, i)
		}
	})
}

func ociAgrees(t *testing.T, p sourcetest.Program, i int) {
	tt := ociFiles[i]
	dir := t.TempDir()
	file := filepath.Join(dir, "rc")
	check(t, os.WriteFile(file, []byte(tt.src), 0o600))
	env := []string{"HOME=" + dir, "TF_CLI_CONFIG_FILE=" + file, "CHECKPOINT_DISABLE=1"}
	judge := sourcetest.NewJudge(t, p, "oci-blocks", strconv.Itoa(i), nil)
	out, status := judge.Run(sourcetest.EngineRun{Base: dir, Dir: dir, Env: env, Args: []string{"version"}})
	sourcetest.Require(t, status == 0 && strings.Contains(out, "OpenTofu v"), "%s: %d: %s", tt.src, status, out)
	refuses := strings.Contains(out, "problems with the CLI configuration")
	_, diags := load(rc(tt.src), tofu)
	sourcetest.Expect(t, (refuses == (diags.Err() != nil)) == !tt.differs, "%s\nLarder: %v\nOpenTofu: %s", tt.src, diags, out)
}

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
