package cliconfig

// FilesRead returns the paths of the files that were read, in order.
func FilesRead(c *Config) (paths []string) {
	for _, f := range c.files {
		if f.WasRead() {
			paths = append(paths, f.Name)
		}
	}
	return paths
}
