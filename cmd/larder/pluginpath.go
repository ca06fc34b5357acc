package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/sources/disk"
)

// readPluginDirs reads the --plugin-dir flags. An empty value is an error: it is probably an
// unset variable, and other sources must not be used instead.
func (in *installation) readPluginDirs(typed []string) error {
	in.pluginPath = typed
	for _, dir := range typed {
		if dir == "" {
			return usageError{errors.New("--plugin-dir is empty")}
		}
		in.pluginDirs = append(in.pluginDirs, absolute(in.dir, dir))
	}
	return nil
}

// rememberPluginDirs writes the directories to plugin_path in the data directory, like the
// engines. Larder does not read the file. If the file is a symbolic link, it is not changed,
// because other programs may use its target.
func (in *installation) rememberPluginDirs(dataDir string) error {
	if len(in.pluginPath) == 0 || in.flags.dryRun {
		return nil
	}
	if err := in.writePluginPath(dataDir); err != nil {
		return fmt.Errorf("recording the plugin directories: %w", err)
	}
	return nil
}

// writePluginPath writes the file in the engines' format.
func (in *installation) writePluginPath(dataDir string) error {
	const name = "plugin_path"
	text, err := json.MarshalIndent(in.pluginPath, "", "  ")
	if err != nil {
		return err
	}
	dir, err := disk.Make(dataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if dir.Through(0) != "" {
		in.out.Warn("%s is a symbolic link, so the plugin directories are not recorded in it", dataDir)
		return nil
	}
	return dir.WriteFile(name, text, disk.Lazily)
}
