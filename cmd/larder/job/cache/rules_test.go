package cache

import (
	"testing"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/site/sitetest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A key changes with versions and platforms, and not with hashes, or with the directories of lock files.
func TestKey(t *testing.T) {
	keyOf := func(files string, opts site.Options, roots ...string) string {
		s, _ := sitetest.Open(t, files, opts)
		s.Roots = roots
		tree, err := job.ReadLocked(t.Context(), s)
		sourcetest.Check(t, err)
		return key(tree)
	}
	lock := func(dir, version, hashes string) string {
		return "-- " + dir + "/.terraform.lock.hcl --\n" +
			"provider \"example.test/acme/a\" {\n  version = \"" + version + "\"\n" + hashes + "}\n"
	}
	first := keyOf(lock("a", "1.0.0", ""), site.Options{}, "a")
	same := lock("b", "1.0.0", "  hashes = [\"h1:x\"]\n") + lock("c", "1.0.0", "")
	sourcetest.Equal(t, keyOf(same, site.Options{}, "b", "c"), first)
	sourcetest.Equal(t, keyOf(same, site.Options{Recursive: true}), first)
	sourcetest.Expect(t, keyOf(lock("a", "1.0.1", ""), site.Options{}, "a") != first, "the key lacks the version")
	open := "-- d/main.tf.json --\n{\"terraform\": {\"required_providers\": {\"a\": {\"source\": \"example.test/acme/a\"}}}}\n"
	sourcetest.Expect(t, keyOf(same+open, site.Options{}, "b", "d") != first, "the key lacks what is not locked")
}
