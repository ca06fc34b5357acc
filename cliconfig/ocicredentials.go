package cliconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig/credentials"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// An ociConfig determines the credentials for OCI registries. All Configs of a [Load] share it.
type ociConfig struct {
	credentials.Registries
	tokenServers map[sources.Host]sources.Host // by registry, of Larder's own files
	problems     sources.Diagnostics           // in the blocks; Terraform ignores them
}

func newOCIConfig(m Machine, secrets *sources.Secrets) *ociConfig {
	return &ociConfig{
		Registries: credentials.Registries{
			Defaults: credentials.Defaults{Ambient: true}, Usual: m.dockerPaths(),
			ReadFile: m.Files.ReadFile, Find: m.dockerHelper,
			Programs: credentials.NewPrograms(m.Environ, m.WorkDir, secrets),
		},
		tokenServers: map[sources.Host]sources.Host{},
	}
}

// dockerPaths returns the usual paths of Docker-style files, which are those of OpenTofu.
func (m Machine) dockerPaths() (paths []string) {
	home := m.HomeDir()
	if profile := m.Getenv("USERPROFILE"); m.GOOS == "windows" && profile != "" {
		home = profile
	}
	config := m.join(home, ".config")
	switch m.GOOS {
	case "linux":
		paths = append(paths, m.join(m.Getenv("XDG_RUNTIME_DIR"), "containers", "auth.json"))
	case "windows", "darwin":
		paths = append(paths, m.join(config, "containers", "auth.json"))
	}
	if xdg := m.Getenv("XDG_CONFIG_HOME"); xdg != "" {
		config = xdg
	}
	paths = append(paths, m.join(config, "containers", "auth.json"),
		m.join(home, ".docker", "config.json"), m.join(home, ".dockercfg"))
	return slices.DeleteFunc(slices.Compact(paths), func(path string) bool { return path == "" })
}

// checkDockerHelper fails for a name of a Docker credential helper that can't be part of a file name.
func (m Machine) checkDockerHelper(name string) error {
	if name == "" || strings.ContainsAny(name, m.ForOS(`/\`, "/")) {
		return fmt.Errorf("%.40q can't be the name of a credential helper", name)
	}
	return nil
}

// dockerHelper returns the path of the program of a Docker credential helper, or "" if PATH has none.
func (m Machine) dockerHelper(name string) (string, error) {
	if err := m.checkDockerHelper(name); err != nil {
		return "", err
	}
	for _, path := range m.Programs(credentials.ProgramName(name)) {
		if info, err := m.Files.Stat(path); err == nil && (m.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return path, nil
		}
	}
	return "", nil
}

// OCICredentials returns the credentials for a repository, or zero Credentials if there are none. It fails if the
// blocks for OCI registries have errors.
func (c *Config) OCICredentials(ctx context.Context, r oci.Repository) (oci.Credentials, error) {
	if err := c.oci.problems.Err(); err != nil {
		return oci.Credentials{}, err
	}
	return c.oci.Credentials(ctx, r)
}

// OCITokenServer returns the server, as HOST or HOST:PORT, that may get the credentials for a registry although it is
// not in its domain, or nothing.
func (c *Config) OCITokenServer(registry string) string {
	host, err := sources.ParseHost(registry)
	if err != nil {
		return ""
	}
	return c.oci.tokenServers[host].ASCII()
}

// OCIHint is what to do about the refusal of a request about a repository, with or without credentials sent.
func (c *Config) OCIHint(r oci.Repository, sent bool) string {
	ctx := context.Background() // nearly always, the files have been read
	chosen, err := c.oci.Choose(ctx, r)
	if err != nil {
		return ""
	}
	from := chosen.From
	if chosen.Helper != "" {
		from = fmt.Sprintf("%s (named by %s)", credentials.ProgramName(chosen.Helper), from)
	}
	switch {
	case sent:
		return fmt.Sprintf("check the credentials for %s from %s: the registry refused them; "+
			"they may have expired, or lack access to this repository", r.Registry, from)
	case chosen.Known():
		return fmt.Sprintf("check the name of the repository: "+
			"the registry refused the request before it got the credentials for %s from %s", r.Registry, from)
	case chosen.Helper != "":
		return fmt.Sprintf("%s has no credentials for %s: log in with it, or %s", from, r.Registry, c.ociAdvice(r.Registry))
	case chosen.Err != nil:
		return fmt.Sprintf("%v: %s", chosen.Err, c.ociAdvice(r.Registry))
	case chosen.Ignored != nil:
		return fmt.Sprintf("repair or remove a file with an error, "+
			"which makes Larder and OpenTofu ignore all files of Docker and Podman: %v", chosen.Ignored)
	}
	return c.ociAdvice(r.Registry)
}

// ociAdvice is how to configure credentials for a registry. The programs that log in write to files that are only read
// by default. Docker and ORAS write those of Docker Hub under the name of a URL, which OpenTofu skips.
func (c *Config) ociAdvice(registry string) string {
	advice := fmt.Sprintf("add %s %q { username = \"USER\" password = \"PASSWORD\" } to %s",
		ociBlockName, registry, c.fileToEdit())
	switch {
	case !c.oci.Defaults.Ambient || c.oci.Defaults.Explicit:
		return advice
	case registry == "docker.io":
		return "log in with podman login docker.io, or " + advice
	}
	return fmt.Sprintf("log in with docker login %[1]s, podman login %[1]s or oras login %[1]s, or %[2]s",
		registry, advice)
}
