package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// A profile is a section of the two files of AWS. The settings in the file of credentials take precedence.
type profile map[string]string

// readFile reads a file with credentials.
func readFile(path string) ([]byte, error) { return readLarge(path, maxCredentials) }

// readLarge reads a file of at most limit bytes.
func readLarge(path string, limit int) ([]byte, error) {
	f, _, err := disk.OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, disk.Cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, disk.Cause(err))
	case len(data) > limit:
		return nil, fmt.Errorf("%s: %w: more than %d bytes", path, fetch.ErrTooLarge, limit)
	}
	return data, nil
}

// section returns the settings of a section in an INI file. Indented lines belong to the setting before them, and are
// skipped.
func section(data []byte, name string) profile {
	var settings profile
	inside := false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch header, isHeader := strings.CutPrefix(text, "["); {
		case text == "", text[0] == '#', text[0] == ';':
		case isHeader:
			header, _, _ = strings.Cut(header, "]")
			if inside = strings.Join(strings.Fields(header), " ") == name; inside && settings == nil {
				settings = profile{}
			}
		case inside && line[0] != ' ' && line[0] != '\t':
			key, value, _ := strings.Cut(text, "=")
			value, _, _ = strings.Cut(strings.TrimSpace(value), " #")
			settings[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return settings
}

// settings returns the settings of the profile. They are nil if neither file has it.
func (c *chain) settings() (profile, error) {
	name := first(c.env.Profile, "default")
	var all profile
	for _, file := range []struct{ path, section string }{
		{c.env.ConfigFile, "profile " + name}, {c.env.ConfigFile, name}, {c.env.CredentialsFile, name},
	} {
		if file.path == "" || file.section == name && file.path == c.env.ConfigFile && name != "default" {
			continue
		}
		data, err := readFile(file.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if found := section(data, file.section); found != nil {
			if all == nil {
				all = profile{}
			}
			maps.Copy(all, found)
		}
	}
	return all, nil
}

// region returns the region in the environment, or else that of the profile, or "". If a file can't be read, the
// search for credentials reports the error.
func (c *chain) region() string {
	if c.env.Region != "" {
		return c.env.Region
	}
	settings, _ := c.settings()
	return settings["region"]
}

// profile returns the credentials of the profile, or those that it describes.
func (c *chain) profile(ctx context.Context) (found, error) {
	origin := fmt.Sprintf("the profile %q", first(c.env.Profile, "default"))
	p, err := c.settings()
	if err != nil {
		return found{}, failed(origin, err)
	}
	keys := Keys{p["aws_access_key_id"], p["aws_secret_access_key"], p["aws_session_token"]}
	c.secrets.Add(keys.Secret, keys.Token)
	switch {
	case p == nil && c.env.Profile != "":
		return found{}, sources.WithHint(fmt.Errorf("%s does not exist in %s or %s", origin, c.env.ConfigFile, c.env.CredentialsFile),
			"correct AWS_PROFILE, or add the profile with: aws configure --profile %s", c.env.Profile)
	case keys.ID != "" || keys.Secret != "":
		return found{Keys: keys, origin: origin}.complete()
	case p["role_arn"] != "" && p["web_identity_token_file"] != "":
		return c.assumeRole(ctx, p["web_identity_token_file"], p["role_arn"], p["role_session_name"], origin)
	case p["credential_process"] != "":
		return c.process(ctx, p["credential_process"], origin)
	case p["role_arn"] != "" || p["sso_session"] != "" || p["sso_start_url"] != "" || p["sso_account_id"] != "" || p["login_session"] != "":
		return found{}, sources.WithHint(fmt.Errorf("%s requires the AWS CLI to sign in", origin),
			`run: eval "$(aws configure export-credentials --profile %s --format env)"`, first(c.env.Profile, "default"))
	}
	return found{}, nil
}

// process runs the program in credential_process.
func (c *chain) process(ctx context.Context, command, origin string) (found, error) {
	words, err := splitCommand(command)
	if err != nil {
		return found{}, failed(origin, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, processTimeout, fmt.Errorf("no answer within %s", processTimeout))
	defer cancel()
	out := &limited{max: maxCredentials}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout = out
	cmd.WaitDelay = time.Second // for its child processes
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return found{}, failed(origin, fmt.Errorf("credential_process: %w", err))
	}
	return parseRole(out.Bytes(), origin)
}

// splitCommand splits a command line at spaces outside of quotes. A backslash is an ordinary character, as in paths of
// Windows.
func splitCommand(line string) (words []string, err error) {
	var word strings.Builder
	quote, begun := rune(0), false
	for _, r := range line + " " {
		switch {
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, word.String())
			}
			begun = false
			word.Reset()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || len(words) == 0 {
		return nil, errors.New("credential_process has an unclosed quote, or no program")
	}
	return words, nil
}

// limited keeps the beginning of an output.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:max(0, min(len(p), l.max-l.Len()))])
	return len(p), nil
}
