package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestInstallScript runs install.sh with releases from a local server. What it installs is a script
// in place of larder.
func TestInstallScript(t *testing.T) {
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd":
	default:
		t.Skip("install.sh is tested on systems with a POSIX shell")
	}
	key, public := signingKey(t, "release")
	_, otherPublic := signingKey(t, "other")
	const version = "0.1.0"
	archive := fmt.Sprintf("larder_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)

	tests := map[string]struct {
		release  func(release map[string][]byte) // changes the files before the server has them
		sign     bool
		obstacle func(installed string) error
		tools    map[string]string // the only programs to download, hash and verify with; an empty script stands for the real program
		args     []string
		stderr   string // "" if it succeeds
		told     string // on stderr, if it succeeds
	}{
		"newest release": {told: "verified with checksums only"},
		"release by its version, with v": {
			args: []string{"--version", "v" + version},
		},
		"missing release": {
			args:   []string{"--version", "0.2.0"},
			stderr: "/download/v0.2.0/SHA256SUMS: cannot download it",
		},
		"version with a path": {
			args:   []string{"--version", "../../other"},
			stderr: "not a version: ../../other",
		},
		"wrong checksum": {
			release: func(r map[string][]byte) { r[archive] = scriptRelease(t, version, "exit 1") },
			stderr:  "wrong checksum: ",
		},
		"truncated archive": {
			release: func(r map[string][]byte) { r[archive] = r[archive][:len(r[archive])/2] },
			stderr:  "wrong checksum: ",
		},
		"missing archive": {
			release: func(r map[string][]byte) { delete(r, archive) },
			stderr:  archive + ": cannot download it",
		},
		"missing platform": {
			release: func(r map[string][]byte) {
				r["SHA256SUMS"] = bytes.ReplaceAll(r["SHA256SUMS"], []byte(archive), []byte("other"))
			},
			args:   []string{"--version", version},
			stderr: "has no archive for " + runtime.GOOS + "_" + runtime.GOARCH,
		},
		"program that does not run": {
			release: func(r map[string][]byte) {
				r[archive] = scriptRelease(t, version, "exit 1")
				r["SHA256SUMS"] = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(r[archive]), archive)
			},
			args:   []string{"--version", version},
			stderr: "does not run on this machine",
		},
		"signature required, and no key": {
			args:   []string{"--require-signature"},
			stderr: "signature not verified: Larder's releases have no key yet",
		},
		"valid signature": {
			sign: true,
			args: []string{"--require-signature", "--key", public},
			told: "verified the signature of SHA256SUMS",
		},
		"signature by another key": {
			sign:   true,
			args:   []string{"--key", otherPublic},
			stderr: "SHA256SUMS: the signature is not valid",
		},
		"no signature, and a key": {
			args:   []string{"--key", public},
			stderr: "SHA256SUMS.sig: cannot download the signature",
		},
		"no gpg, and a key": {
			sign:   true,
			tools:  map[string]string{"curl": "", "sha256sum": ""},
			args:   []string{"--key", public},
			stderr: "signature not verified: neither gpgv nor gpg is installed",
		},
		"gpg, but no gpgv": {
			sign:  true,
			tools: map[string]string{"curl": "", "sha256sum": "", "gpg": ""},
			args:  []string{"--key", public},
			told:  "verified the signature of SHA256SUMS",
		},
		"wget, but no curl": {
			tools: map[string]string{"wget": "", "sha256sum": ""},
		},
		"nothing to download with": {
			tools:  map[string]string{"sha256sum": ""},
			stderr: "neither curl nor wget is installed",
		},
		"FreeBSD's sha256": {
			tools: map[string]string{"curl": "", "sha256": `[ "$1" = -q ] && set -- $(exec "$SHA256SUM") && echo "$1"`},
		},
		"nothing to hash with": {
			tools:  map[string]string{"curl": ""},
			stderr: "no sha256sum, shasum or sha256 is installed",
		},
		"unknown system": {
			tools:  map[string]string{"curl": "", "sha256sum": "", "uname": "echo Plan9"},
			stderr: "has no archive for Plan9_Plan9",
		},
		"changed checksums": {
			sign:    true,
			release: func(r map[string][]byte) { r["SHA256SUMS"] = append(r["SHA256SUMS"], '\n') },
			args:    []string{"--key", public},
			stderr:  "SHA256SUMS: the signature is not valid",
		},
		"directory in place of the program": {
			obstacle: func(installed string) error { return os.MkdirAll(installed, 0o755) },
			stderr:   "larder is a directory",
		},
		"file in place of the directory": {
			obstacle: func(installed string) error { return os.WriteFile(filepath.Dir(filepath.Dir(installed)), nil, 0o644) },
			stderr:   "a directory/bin: cannot create it",
		},
		"unknown flag": {
			args:   []string{"--prefix", "/usr"},
			stderr: "unknown argument --prefix",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sourcetest.OneIn(t, 4)
			files := map[string][]byte{archive: scriptRelease(t, version, "echo larder "+version)}
			files["SHA256SUMS"] = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(files[archive]), archive)
			if archive != "larder_"+version+"_linux_amd64.tar.gz" {
				files["SHA256SUMS"] = fmt.Appendf(files["SHA256SUMS"], "%064x  larder_%s_linux_amd64.tar.gz\n", 0, version)
			}
			if test.sign {
				files["SHA256SUMS.sig"] = key.Sign(files["SHA256SUMS"])
			}
			if test.release != nil {
				test.release(files)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/latest/download/"), "/download/v"+version+"/")
				contents, ok := files[name]
				if !ok {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write(contents)
			}))
			defer server.Close()

			dir := filepath.Join(t.TempDir(), "a directory", "bin")
			installed := filepath.Join(dir, "larder")
			if test.obstacle != nil {
				sourcetest.Check(t, test.obstacle(installed))
			}
			run := func(args ...string) (stderr string, err error) {
				cmd := exec.Command("sh", append([]string{"../../install.sh", "--dir", dir}, args...)...)
				cmd.Env = append(os.Environ(), "LARDER_INSTALL_URL="+server.URL+"/", "TMPDIR="+t.TempDir())
				if test.tools != nil {
					sha256sum, _ := exec.LookPath("sha256sum")
					cmd.Env = append(cmd.Env, "PATH="+onlyTools(t, test.tools), "SHA256SUM="+sha256sum)
				}
				var b strings.Builder
				cmd.Stderr = &b
				err = cmd.Run()
				return b.String(), err
			}
			stderr, err := run(test.args...)
			for _, pattern := range []string{".*", "larder/.*"} {
				if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
					t.Errorf("install.sh leaves %q", left)
				}
			}
			if test.stderr != "" {
				if err == nil || !strings.Contains(stderr, test.stderr) {
					t.Errorf("%v, stderr:\n%s\nwant %q", err, stderr, test.stderr)
				}
				if info, err := os.Stat(installed); err == nil && info.Mode().IsRegular() {
					t.Error("install.sh failed and installed larder")
				}
				return
			}
			if err != nil || !strings.Contains(stderr, test.told) {
				t.Fatalf("%v, stderr:\n%s\nwant %q", err, stderr, test.told)
			}
			if b, err := exec.Command(installed).Output(); err != nil || string(b) != "larder "+version+"\n" {
				t.Errorf("the installed program printed %q, %v", b, err)
			}
			if stderr, err := run("--uninstall"); err != nil {
				t.Errorf("--uninstall: %v\n%s", err, stderr)
			}
			if _, err := os.Stat(installed); err == nil {
				t.Error("--uninstall left larder")
			}
		})
	}
}

// onlyTools returns a directory with these programs and the ones that every system has.
func onlyTools(t *testing.T, tools map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	link := func(name string) {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%s is not on PATH", name)
		}
		sourcetest.Check(t, os.Symlink(program, filepath.Join(dir, name)))
	}
	for name, script := range tools {
		if script == "" {
			link(name)
		} else {
			sourcetest.WriteExecutable(t, filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"))
		}
	}
	for _, name := range strings.Fields("awk base64 cat chmod cut grep gzip id mkdir mktemp mv rm sed sh tar tr uname") {
		if _, ok := tools[name]; !ok {
			link(name)
		}
	}
	return dir
}

// scriptRelease returns an archive with a script in place of larder.
func scriptRelease(t *testing.T, version, script string) []byte {
	t.Helper()
	script = "#!/bin/sh\n" + script + "\n"
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	name := fmt.Sprintf("larder_%s_%s_%s/larder", version, runtime.GOOS, runtime.GOARCH)
	sourcetest.Check(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(script))}))
	_, err := w.Write([]byte(script))
	sourcetest.Check(t, errors.Join(err, w.Close(), z.Close()))
	return b.Bytes()
}

// signingKey returns a key, and a file with its public key.
func signingKey(t *testing.T, name string) (key *sourcetest.Key, public string) {
	t.Helper()
	key, public = sourcetest.NewKey(name), filepath.Join(t.TempDir(), "key.asc")
	sourcetest.Check(t, os.WriteFile(public, []byte(key.Armor()), 0o644))
	return key, public
}
