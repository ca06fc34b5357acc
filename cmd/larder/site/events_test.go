package site

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A process that waits for another process prints its pid, and reports it in JSON.
func TestWaitingIsTold(t *testing.T) {
	p, err := sources.ParseProvider("example.test/acme/widget", sources.Terraform)
	sourcetest.Check(t, err)
	v, err := sources.ParseVersion("1.2.0")
	sourcetest.Check(t, err)
	widget := sources.PackageID{Provider: p, Version: v, Platform: sources.CurrentPlatform()}
	here, err := os.Hostname()
	sourcetest.Check(t, err)
	since := time.Date(2020, 1, 2, 3, 4, 5, 0, time.Local)
	for _, test := range []struct {
		holder       cachedir.Holder
		shown, event string
	}{
		{
			cachedir.Holder{ID: widget, Holder: disk.Holder{PID: 7, Host: "there", Since: since}},
			"example.test/acme/widget 1.2.0: waiting for another larder process (pid 7 on there, since 03:04:05)\n",
			`{"type":"event","step":"waiting","provider":"example.test/acme/widget","version":"1.2.0","platform":"` + sources.CurrentPlatform().String() + `",` +
				`"text":"another larder process (pid 7 on there, since 03:04:05)"}`,
		},
		{
			cachedir.Holder{ID: widget},
			"example.test/acme/widget 1.2.0: waiting for another larder process\n",
			`{"type":"event","step":"waiting","provider":"example.test/acme/widget","version":"1.2.0","platform":"` + sources.CurrentPlatform().String() + `",` +
				`"text":"another larder process"}`,
		},
		{
			cachedir.Holder{ID: widget, Holder: disk.Holder{PID: os.Getpid(), Host: here, Since: since}},
			"example.test/acme/widget 1.2.0: waiting for another root module\n",
			`{"type":"event","step":"waiting","provider":"example.test/acme/widget","version":"1.2.0","platform":"` + sources.CurrentPlatform().String() + `",` +
				`"text":"another root module"}`,
		},
		{
			cachedir.Holder{ID: widget, Holder: disk.Holder{PID: 7}, Tofu: "/cache/linux_amd64.lock"},
			"example.test/acme/widget 1.2.0: waiting for OpenTofu (pid 7), which has locked /cache/linux_amd64.lock\n",
			`{"type":"event","step":"waiting","provider":"example.test/acme/widget","version":"1.2.0","platform":"` + sources.CurrentPlatform().String() + `",` +
				`"text":"OpenTofu (pid 7), which has locked /cache/linux_amd64.lock"}`,
		},
		{
			cachedir.Holder{ID: widget, Tofu: "/cache/linux_amd64.lock"},
			"example.test/acme/widget 1.2.0: waiting for OpenTofu, which has locked /cache/linux_amd64.lock\n",
			`{"type":"event","step":"waiting","provider":"example.test/acme/widget","version":"1.2.0","platform":"` + sources.CurrentPlatform().String() + `",` +
				`"text":"OpenTofu, which has locked /cache/linux_amd64.lock"}`,
		},
		{
			cachedir.Holder{Holder: disk.Holder{PID: 7, Host: "there", Since: since}},
			"waiting for another larder process (pid 7 on there, since 03:04:05) to clean the plugin cache\n",
			`{"type":"event","step":"waiting","text":"another larder process (pid 7 on there, since 03:04:05) to clean the plugin cache"}`,
		},
		{
			cachedir.Holder{},
			"waiting for the processes that install from the plugin cache\n",
			`{"type":"event","step":"waiting","text":"the processes that install from the plugin cache"}`,
		},
	} {
		var stdout, stderr bytes.Buffer
		s := &Site{Output: report.New(&stdout, &stderr)}
		m := &Root{Site: s, Config: &cliconfig.Config{}}
		opts, err := m.cacheOptions()
		sourcetest.Check(t, err)
		opts.Waiting(test.holder)
		sourcetest.Equal(t, stderr.String(), test.shown, &stderr)
		s.Output.JSON = true
		opts.Waiting(test.holder)
		sourcetest.Equal(t, strings.TrimSuffix(stdout.String(), "\n"), test.event)
	}
}
