package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestFlagsMayStandAnywhere(t *testing.T) {
	app := newApp(ui.New(nil, nil))
	for _, tt := range []struct{ typed, means string }{
		{"larder", "larder"},
		{"larder --chdir prefetch prefetch aws", "larder --chdir prefetch prefetch aws"},
		{"larder prefetch aws --from live -R other", "larder prefetch --from live -R aws other"},
		{"larder prefetch aws --from=live other", "larder prefetch --from=live aws other"},
		{"larder prefetch aws -platform linux_amd64", "larder prefetch -platform linux_amd64 aws"},
		{"larder prefetch aws --json --from", "larder prefetch --json --from aws"},
		{"larder prefetch aws --unknown google", "larder prefetch --unknown aws google"},
		{"larder prefetch aws -- --from -R", "larder prefetch -- aws --from -R"},
		{"larder prefetch aws cache -", "larder prefetch aws cache -"},
		{"larder cache --quiet prune --older-than 3d x --all", "larder cache --quiet prune --older-than 3d --all x"},
		{"larder help cache prune", "larder help cache prune"},
		{"larder wrong --json", "larder --json wrong"},
	} {
		sourcetest.Equal(t, strings.Join(flagsFirst(app, strings.Fields(tt.typed)), " "), tt.means, tt.typed, "means")
	}
}

// Whatever is typed, nothing of it is lost and nothing is added.
func FuzzFlagsFirst(f *testing.F) {
	for _, seed := range []string{"prefetch aws --from x", "cache prune -- --all", "- -- -", "--chdir"} {
		f.Add(seed)
	}
	app := newApp(ui.New(nil, nil))
	f.Fuzz(func(t *testing.T, typed string) {
		args := append([]string{"larder"}, strings.Split(typed, " ")...)
		got := flagsFirst(app, args)
		again := flagsFirst(app, got)
		if !slices.Equal(slices.Sorted(slices.Values(args)), slices.Sorted(slices.Values(got))) || !slices.Equal(got, again) {
			t.Errorf("%q became %q, then %q", args, got, again)
		}
	})
}
