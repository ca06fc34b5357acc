package site

import (
	"bytes"
	"os"
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
	here := sources.CurrentPlatform().String()
	widget := sourcetest.PackageID(t, "example.test/acme/widget", "1.2.0", here)
	host := sourcetest.Must(os.Hostname())(t)
	since := time.Date(2020, 1, 2, 3, 4, 5, 0, time.Local)
	another := disk.Holder{PID: 7, Host: "there", Since: since}
	const lock = "/cache/linux_amd64.lock"
	for want, holder := range map[string]cachedir.Holder{
		"another larder process (pid 7 on there, since 03:04:05)":                           {ID: widget, Holder: another},
		"another larder process":                                                            {ID: widget},
		"another root module":                                                               {ID: widget, Holder: disk.Holder{PID: os.Getpid(), Host: host, Since: since}},
		"OpenTofu (pid 7), which has locked " + lock:                                        {ID: widget, Holder: disk.Holder{PID: 7}, Tofu: lock},
		"OpenTofu, which has locked " + lock:                                                {ID: widget, Tofu: lock},
		"the processes that install from the plugin cache":                                  {},
		"another larder process (pid 7 on there, since 03:04:05) to clean the plugin cache": {Holder: another},
	} {
		shown, event := "waiting for "+want+"\n", `{"type":"event","step":"waiting",`
		if holder.ID == widget {
			shown = "example.test/acme/widget 1.2.0: " + shown
			event += `"provider":"example.test/acme/widget","version":"1.2.0","platform":"` + here + `",`
		}
		var stdout, stderr bytes.Buffer
		s := &Site{Output: report.New(&stdout, &stderr)}
		m := &Root{Site: s, Config: &cliconfig.Config{}}
		opts := sourcetest.Must(m.cacheOptions())(t)
		opts.Waiting(holder)
		sourcetest.Equal(t, stderr.String(), shown)
		s.Output.JSON = true
		opts.Waiting(holder)
		sourcetest.Equal(t, stdout.String(), event+`"text":"`+want+`"}`+"\n")
	}
}
