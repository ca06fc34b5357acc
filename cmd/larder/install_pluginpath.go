package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/larder-cli/larder/sources/disk"
)

// readPluginDirs reads the directories to install from, as they were typed. A
// single empty one stands for none, so that what engines remember is forgotten.
func (in *installation) readPluginDirs(typed []string) error {
	in.pluginPath = typed
	if len(typed) > 1 && slices.Contains(typed, "") {
		return usageError{errors.New("an empty --plugin-dir stands for none and cannot go with others")}
	}
	for _, dir := range typed {
		if dir != "" {
			in.pluginDirs = append(in.pluginDirs, absolute(in.dir, dir))
		}
	}
	return nil
}

// rememberPluginDirs writes the directories where the engines do, into the data
// directory's plugin_path. Nothing acts upon that file. Behind a link it is left
// alone, as what else relies on it is unknown.
func (in *installation) rememberPluginDirs(dataDir string) error {
	if len(in.pluginPath) == 0 || in.flags.dryRun {
		return nil
	}
	if info, err := os.Lstat(dataDir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		in.out.Warn("%s is a symbolic link, so the plugin directories are not recorded in it", dataDir)
		return nil
	}
	if err := in.writePluginPath(dataDir); err != nil {
		return fmt.Errorf("recording the plugin directories: %w", err)
	}
	return nil
}

// writePluginPath writes the file as terraform init does, and removes it where terraform
// init would.
func (in *installation) writePluginPath(dataDir string) error {
	const name = "plugin_path"
	if in.pluginPath[0] == "" {
		dir, err := disk.Open(dataDir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer dir.Close()
		return dir.Remove(name)
	}
	text, err := json.MarshalIndent(in.pluginPath, "", "  ")
	if err != nil {
		return err
	}
	dir, err := disk.Make(dataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.WriteFile(name, text, disk.Lazily)
}
