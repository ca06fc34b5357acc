package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// attribute stands for the one that macOS uses, whose name isn't allowed on Linux.
const attribute = "user.com.apple.quarantine"

func init() {
	commands["quarantine"] = quarantine
	hasAttributes = func() bool {
		f, err := os.CreateTemp("", "")
		if err != nil {
			return false
		}
		defer os.Remove(f.Name())
		return errors.Join(f.Close(), unix.Setxattr(f.Name(), attribute, []byte("0083"), 0)) == nil
	}
}

// quarantine marks all files below directories, as browsers and Finder do. Negated, it requires that none is marked.
func quarantine(ts *testscript.TestScript, neg bool, args []string) {
	for _, dir := range args {
		files := 0
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			files++
			if !neg {
				return unix.Setxattr(path, attribute, []byte("0083"), 0)
			}
			if _, err := unix.Getxattr(path, attribute, nil); err == nil {
				ts.Fatalf("%s is marked", path)
			}
			return nil
		}))
		if files == 0 {
			ts.Fatalf("no files in %s", dir)
		}
	}
}
