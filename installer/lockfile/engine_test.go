package lockfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// ReadEngine finds the engine that Read finds, and reads only the header if it names one.
func TestReadEngine(t *testing.T) {
	const rest = "# Manual edits may be lost in future updates.\n"
	for text, parsed := range map[string]bool{
		"# This file is maintained automatically by \"tofu init\".\n" + rest:                 false,
		"\ufeff# mine\r\n\r\n# This file is maintained automatically by \"terraform init\".": false,
		"// mine\n# This file is maintained automatically by \"tofu init\".\n" + rest:        false,
		"\n# This file is maintained automatically by \"salt init\".\n" + rest:               true,
		"": true,
	} {
		block := "\nprovider \"example.test/acme/widget\" {\n  version = \"1.0.0\"\n}\n"
		path := filepath.Join(t.TempDir(), lockfile.Name)
		sourcetest.Check(t, os.WriteFile(path, []byte(text+block), 0o644))
		want, ds := lockfile.Read(path)
		sourcetest.Check(t, ds.Err())
		got := lockfile.ReadEngine(path)
		engine, ok := want.Engine()
		found, foundOk := got.Engine()
		sourcetest.Equal(t, found, engine, text)
		sourcetest.Equal(t, foundOk, ok, text)
		sourcetest.Equal(t, len(got.Entries()) > 0, parsed, text)
	}
	sourcetest.Expect(t, !lockfile.ReadEngine(filepath.Join(t.TempDir(), "absent")).Exists, "a file that does not exist")
}
