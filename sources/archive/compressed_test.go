package archive_test

import (
	"archive/zip"
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// What the usual programs write is recognized, and nothing else.
func TestCompression(t *testing.T) {
	for _, program := range []string{"zstd", "gzip", "xz", "bzip2", "lz4"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("no %s", program)
			continue
		}
		cmd := exec.Command(program, "-c")
		cmd.Stdin = strings.NewReader("a file")
		out, err := cmd.Output()
		sourcetest.Check(t, err)
		name, command := archive.Compression(out)
		sourcetest.Equal(t, name+" by "+command, program+" by "+program+" -dc", "what "+program+" writes")
	}
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	_, err := w.Create("file")
	sourcetest.Check(t, err)
	sourcetest.Check(t, w.Close())
	name, command := archive.Compression(zipped.Bytes())
	sourcetest.Equal(t, name+" by "+command, "zip by unzip -p", "a zip")
	for _, plain := range []string{"", "\x28\xb5", "manifest.json", "{", "BZ", "PK\x05\x06", "\x00\x00\x00\x00"} {
		name, command := archive.Compression([]byte(plain))
		sourcetest.Equal(t, name+command, "", "%q", plain)
	}
}
