package credentials

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/oci"
)

// maxDockerFile is the maximum size of a Docker-style file, in bytes.
const maxDockerFile = 4 << 20

// A dockerFile is a file of Docker, Podman or similar programs with credentials for OCI registries.
type dockerFile struct {
	path string

	Auths map[string]*struct {
		Auth []byte `json:"auth"` // USER:PASSWORD
	} `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"` // by registry
	CredsStore  string            `json:"credsStore"`  // helper for all other registries
}

// dockerFiles are the Docker-style files in order.
type dockerFiles struct {
	files []dockerFile
	fault error // why all files at the usual paths are ignored; nil if they aren't
}

// readDocker reads the Docker-style files. As in OpenTofu, a problem in one of those that the configuration names is an
// error, and a problem in one of the others means that none of the others is used.
func (o *Registries) readDocker(ctx context.Context) (found dockerFiles, err error) {
	if !o.Defaults.Ambient {
		return found, nil
	}
	paths := o.Defaults.Files
	if !o.Defaults.Explicit {
		paths = o.Usual
	}
	for _, path := range paths {
		f, err := o.readDockerFile(ctx, path)
		switch {
		case ctx.Err() != nil:
			return found, ctx.Err()
		case err != nil && o.Defaults.Explicit:
			err = fmt.Errorf("%s: docker_style_config_files: %w", o.Defaults.Place, err)
			return found, sources.WithHint(err, "log in again, or leave the file out of the list")
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && found.fault == nil:
			found.fault = err
		case err == nil:
			found.files = append(found.files, f)
		}
	}
	if found.fault != nil {
		found.files = nil
	}
	return found, nil
}

// readDockerFile reads a Docker-style file. Its errors have the path, and none of the contents.
func (o *Registries) readDockerFile(ctx context.Context, path string) (dockerFile, error) {
	src, err := o.ReadFile(ctx, path, maxDockerFile+1)
	switch {
	case err != nil:
		return dockerFile{}, fmt.Errorf("%s: %w", path, disk.Cause(err))
	case len(src) > maxDockerFile:
		return dockerFile{}, fmt.Errorf("%s: larger than %d bytes", path, maxDockerFile)
	}
	f := dockerFile{path: path}
	err = json.Unmarshal(src, &f)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return f, fmt.Errorf("%s: %s has a value of the wrong type", path, wrong.Field)
	}
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return f, fmt.Errorf("%s: the auth of an entry in auths is not in base64", path)
	}
	if err != nil {
		return f, fmt.Errorf("%s: not valid JSON", path)
	}
	for _, a := range f.Auths {
		if a != nil {
			_, password, _ := strings.Cut(string(a.Auth), ":")
			o.Programs.secrets.Add(password, base64.StdEncoding.EncodeToString(a.Auth))
		}
	}
	return f, nil
}

// candidates yields the credentials in the file for a repository. As in OpenTofu, it skips entries without an auth,
// which programs leave behind if a helper keeps the credentials, and names that are not repositories, such
// as https://index.docker.io/v1/.
func (f dockerFile) candidates(r oci.Repository, yield func(Choice)) {
	for name, a := range f.Auths {
		if a == nil || len(a.Auth) == 0 {
			continue
		}
		of := oci.Repository{Registry: name}
		if strings.Contains(name, "/") {
			var err error
			if of, err = oci.ParseRepository(name); err != nil {
				continue
			}
		}
		segments, ok := of.Covers(r)
		if !ok || name == "" {
			continue
		}
		c := Choice{rank: ofRegistry + segments, From: f.path}
		user, password, ok := strings.Cut(string(a.Auth), ":")
		if !ok {
			c.Err = fmt.Errorf("%s: the auth of %q is not USER:PASSWORD in base64", f.path, name)
		}
		c.credentials = oci.Credentials{Username: user, Password: password, From: f.path}
		yield(c)
	}
	yield(Choice{rank: ofRegistry, From: f.path, Helper: f.CredHelpers[r.Registry]})
	yield(Choice{rank: ofAll, From: f.path, Helper: f.CredsStore})
}
