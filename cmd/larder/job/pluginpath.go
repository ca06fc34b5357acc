package job

import (
	"encoding/json"
	"fmt"

	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources/disk"
)

// UseMirrors makes the run use the mirrors in the directories of a flag instead of all other sources. Like engines, it
// fails if one does not exist, even if everything is installed: its drive may not be mounted.
func UseMirrors(s *site.Site, flag string, typed []string) error {
	for _, dir := range typed {
		path, err := site.Existing(s.WorkDir, dir, site.Directory, "name the directory of a mirror")
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		s.PluginDirs = append(s.PluginDirs, path)
	}
	return nil
}

// writePluginPath writes the directories, if there are any, to plugin_path in the data directory, like the
// engines. Larder does not read the file. If the file is a symbolic link, it is not changed,
// because other programs may use its target.
func writePluginPath(s *site.Site, typed []string, dataDir string) error {
	if len(typed) == 0 || s.Flags.DryRun {
		return nil
	}
	text, err := json.MarshalIndent(typed, "", "  ")
	if err != nil {
		return err
	}
	dir, err := disk.Make(dataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if dir.Through(0) != "" {
		s.Output.Warn("%s is a symbolic link, so the plugin directories are not recorded in it", dataDir)
		return nil
	}
	return dir.WriteFile("plugin_path", text, disk.Lazily)
}
