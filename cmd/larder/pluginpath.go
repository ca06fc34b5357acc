package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/installer/lockfile"
)

// readPluginDirs reads the directories to install from, as they were typed. A
// single empty one stands for none, so that what engines remember is forgotten.
func (in *installation) readPluginDirs(typed []string) error {
	in.pluginPath = typed
	if len(typed) > 1 && slices.Contains(typed, "") {
		return usageError{errors.New("an empty --plugin-dir stands for none and cannot go with others")}
	}
	return nil
}

// rememberPluginDirs keeps the directories where the engines keep them, in the
// data directory's plugin_path. They write it, and never act upon it.
func (in *installation) rememberPluginDirs(dataDir string) error {
	path := filepath.Join(dataDir, "plugin_path")
	switch {
	case len(in.pluginPath) == 0 || in.dryRun:
		return nil
	case in.pluginPath[0] == "":
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting the plugin directories: %w", err)
		}
		return nil
	}
	text, err := json.MarshalIndent(in.pluginPath, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		return fmt.Errorf("remembering the plugin directories: %w", err)
	}
	// It is no lock file, but to be written as carefully.
	if err := lockfile.Write(path, text); err != nil {
		return fmt.Errorf("remembering the plugin directories: %w", err)
	}
	return nil
}
