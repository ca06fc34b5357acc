package cache

import (
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/site/sitetest"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Root modules that are known say more than hard links, and these more than that a package is kept.
func TestUsers(t *testing.T) {
	for want, c := range map[string]cachedSize{
		"2 root modules": {Roots: []string{"a", "b"}, Linked: true, Kept: true},
		"linked":         {Linked: true, Kept: true},
		"kept":           {Kept: true},
		"unused":         {},
	} {
		sourcetest.Equal(t, c.users(), want)
	}
}

// A list of a directory that is no plugin cache fails, and creates nothing there.
func TestListNoCache(t *testing.T) {
	s, shown := sitetest.Open(t, "-- other/main.tf --\n", site.Options{Cache: "other"})
	err := List(t.Context(), s, ListRequest{})
	sourcetest.Expect(t, err != nil && !site.Exists(site.Absolute(s.WorkDir, "other/.larder")), "%v\n%s", err, shown)
}

// Packages that nothing uses, and those whose users are shown, have another reason.
func TestRemovalReasons(t *testing.T) {
	s, _ := sitetest.Open(t, "", site.Options{})
	id := sourcetest.PackageID(t, "example.test/acme/a", "1.0.0", sources.CurrentPlatform().String())
	for want, r := range map[string]cachedir.Removal{
		"unused":                {Entry: cachedir.Entry{ID: id}, Reason: cachedir.NoUser},
		"used by 1 root module": {Entry: cachedir.Entry{ID: id, Roots: []string{"a"}}, Reason: cachedir.Everything},
		"linked":                {Entry: cachedir.Entry{ID: id, Linked: true}, Reason: cachedir.Everything},
	} {
		cells := Removal{cachedSize: sizeOf(r.Entry), Reason: r.Reason}.Cells(s.Output)
		sourcetest.Equal(t, cells[len(cells)-1].Text, want)
	}
}
