package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// contentsOf sorts the files and returns the contents.
func contentsOf(files []sources.File) sources.Contents {
	slices.SortFunc(files, func(a, b sources.File) int { return strings.Compare(a.Path, b.Path) })
	c := sources.Contents{Files: files, H1: H1(files)}
	for _, f := range files {
		c.Size += f.Size
	}
	c.ZipH1 = c.H1
	return c
}

// H1 returns the h1: hash of files, which must be sorted by path.
func H1(files []sources.File) sources.Hash {
	var line []byte
	sum := sha256.New()
	for _, f := range files {
		line = hex.AppendEncode(line[:0], f.SHA256[:])
		line = append(line, "  "...)
		line = append(line, f.Path...)
		line = append(line, '\n')
		sum.Write(line)
	}
	return sources.ContentsHash([32]byte(sum.Sum(nil)))
}
