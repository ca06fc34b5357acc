package cliconfig_test

import (
	"context"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestIgnoredVariables(t *testing.T) {
	for name, meant := range map[string]string{
		"TF_PLUGIN_CACHE":       "TF_PLUGIN_CACHE_DIR",
		"TF_PLUGIN_CACHE_DIRS":  "TF_PLUGIN_CACHE_DIR",
		"TF_CLI_CONFIG":         "TF_CLI_CONFIG_FILE",
		"TF_CLI_CONFIG_FILES":   "TF_CLI_CONFIG_FILE",
		"TF_TOKEN":              "TF_TOKEN_HOST",
		"tf_data_dir":           "TF_DATA_DIR",
		"TF_NETWORK_MIRROR":     "",
		"TF_PLUGIN_CACHE_DIR":   "-",
		"TF_TOKEN_example_com":  "-",
		"TF_VAR_plugin_cache":   "-",
		"TF_LOG_PROVIDER":       "-",
		"TF_LOG":                "-",
		"TF_CLI_ARGS_plan":      "-",
		"TF_IN_AUTOMATION":      "-",
		"TF_CLOUD_ORGANIZATION": "-",
		"TF_STATE":              "-",
		"TF_ROOT":               "-",
		"TFLINT_PLUGIN_DIR":     "-",
	} {
		config, _ := cliconfig.Load(context.Background(), linux(nil, name+"=x"), terraform, cliconfig.Options{})
		got := "-"
		for _, v := range config.IgnoredVariables() {
			got = v.Meant
		}
		sourcetest.Expect(t, got == meant, "%s: %q", name, got)
	}
}

func TestUnreadFiles(t *testing.T) {
	const content = "plugin_cache_dir = \"/c\"\n"
	for _, tt := range []struct {
		files   string
		engine  sources.Engine
		environ string
		want    string // PATH by VARIABLE, or PATH as PATH
	}{
		{"/home/me/.terraformrc", terraform, "", ""},
		{"/home/me/.terraformrc /home/me/.tofurc", tofu, "", ""},
		{"/home/me/.terraformrc /o", terraform, "TF_CLI_CONFIG_FILE=/o", "/home/me/.terraformrc by TF_CLI_CONFIG_FILE"},
		{"/home/me/.terraform.d/credentials.tfrc.json /o", terraform, "TERRAFORM_CONFIG=/o", "/home/me/.terraform.d/credentials.tfrc.json by TERRAFORM_CONFIG"},
		{"/home/me/terraform.rc", terraform, "", "/home/me/terraform.rc as /home/me/.terraformrc"},
		{"/home/me/.terraform.d/.terraformrc", terraform, "", "/home/me/.terraform.d/.terraformrc as /home/me/.terraformrc"},
		{"/start/.terraformrc", terraform, "", "/start/.terraformrc as /home/me/.terraformrc"},
		{"/start/.terraformrc", terraform, "TF_CLI_CONFIG_FILE=.terraformrc", ""},
		{"/start/.tofurc", tofu, "", "/start/.tofurc as /home/me/.tofurc"},
		{"/home/me/.config/opentofu/tofurc", tofu, "", "/home/me/.config/opentofu/tofurc as /home/me/.tofurc"},
		{"/home/me/.config/opentofu/tofurc", terraform, "", ""},
		{"/xdg/opentofu/tofurc", tofu, "XDG_CONFIG_HOME=/xdg", ""},
		{"/xdg/opentofu/tofurc /home/me/.terraformrc", tofu, "XDG_CONFIG_HOME=/xdg", "/xdg/opentofu/tofurc as /home/me/.terraformrc"},
	} {
		files := map[string]string{}
		for _, path := range strings.Fields(tt.files) {
			files[path] = content
		}
		config, _ := cliconfig.Load(context.Background(), linux(files, tt.environ), tt.engine, cliconfig.Options{})
		var got []string
		for _, f := range config.UnreadFiles() {
			if f.By != "" {
				got = append(got, f.Path+" by "+f.By)
			} else {
				got = append(got, f.Path+" as "+f.RenameTo)
			}
		}
		sourcetest.Expect(t, strings.Join(got, ", ") == tt.want, "%s, %s: %q", tt.files, tt.environ, got)
	}
}
