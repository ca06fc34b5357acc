package sourcetest

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// archived is the modification time of every file in an archive.
var archived = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// writeArchive writes the archive of r for a platform.
func (r *release) writeArchive(w io.Writer, platform string) error {
	if r.Archive != nil {
		_, err := w.Write(r.Archive)
		return err
	}
	z := zip.NewWriter(w)
	files := r.files(platform)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := r.addFile(z, name, files[name]); err != nil {
			return err
		}
	}
	return z.Close()
}

// files returns the contents of the package of r for a platform.
func (r *release) files(platform string) map[string]io.Reader {
	files := map[string]io.Reader{}
	for name, content := range r.Files {
		files[name] = strings.NewReader(content)
	}
	executable := r.executable(platform)
	switch {
	case r.Size > 0:
		files[executable] = io.LimitReader(newGenerated(executable+platform), r.Size)
	case len(files) == 0:
		text := fmt.Sprintf("the %s provider, version %s, for %s\n", r.providerType(), r.version, platform)
		files[executable] = strings.NewReader(text)
	}
	return files
}

func (r *release) executable(platform string) string {
	name := "terraform-provider-" + r.providerType() + "_v" + r.version
	if strings.HasPrefix(platform, "windows_") {
		name += ".exe"
	}
	return name
}

func (r *release) addFile(z *zip.Writer, name string, content io.Reader) error {
	h := &zip.FileHeader{Name: name, Modified: archived, Method: zip.Store}
	if r.Deflate {
		h.Method = zip.Deflate
	}
	h.SetMode(0o644)
	if strings.HasPrefix(name, "terraform-provider-") {
		h.SetMode(0o755)
	}
	entry, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(entry, content)
	return err
}

// generated is endless text that is the same in each run. It compresses to
// about a third, like an executable: it repeats tokens, the short ones most
// often.
type generated struct {
	random *rand.Rand
	tokens [][]byte
	rest   []byte
}

func newGenerated(seed string) *generated {
	source := rand.NewChaCha8(sha256.Sum256([]byte(seed)))
	g := &generated{random: rand.New(source)}
	for i := range 1024 {
		token := make([]byte, 4+i%28)
		source.Read(token)
		g.tokens = append(g.tokens, token)
	}
	return g
}

func (g *generated) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		if len(g.rest) == 0 {
			g.rest = g.tokens[g.random.Uint64N(uint64(len(g.tokens)))]
		}
		copied := copy(b[n:], g.rest)
		g.rest = g.rest[copied:]
		n += copied
	}
	return n, nil
}
