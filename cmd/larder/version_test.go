package main

import (
	"runtime/debug"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestVersion(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: commit}
	const pseudo = "0.1.1-0.20261124001500-0123456789ab"
	for _, c := range []struct {
		how             string
		info            *debug.BuildInfo
		version, commit string
	}{
		{"go install of a tag", built("v0.1.0"), "0.1.0", ""},
		{"go install of a commit", built("v" + pseudo), pseudo, "0123456789ab"},
		{"go build at a tag", built("v0.1.0", revision), "0.1.0", commit},
		{"go build with changes", built("v" + pseudo + "+dirty"), pseudo + "+dirty", "0123456789ab"},
		{"go build of an unpacked archive", built("(devel)"), "devel", ""},
		{"go build -buildvcs=false", built(""), "devel", ""},
	} {
		got := versionOf(c.info)
		sourcetest.Expect(t, got.Version == c.version && got.Commit == c.commit, "%s: %+v", c.how, got)
	}
	text := versionOf(built("v0.1.0", revision)).Text(nil)
	sourcetest.Equal(t, text, "larder 0.1.0 "+sources.CurrentPlatform().String()+", commit "+commit+", go1.26.0")

	releaseVersion, releaseCommit = "1.2.3", "89abcdef"
	defer func() { releaseVersion, releaseCommit = "", "" }()
	got := versionOf(built("(devel)"))
	sourcetest.Expect(t, got.Version == "1.2.3" && got.Commit == "89abcdef", "a release: %+v", got)
}
