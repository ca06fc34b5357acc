package cliconfig

import "strings"

// installFlags are the flags of init that bear on which providers get
// installed, and from where.
var installFlags = []string{"-upgrade", "-lockfile", "-plugin-dir", "-get-plugins"}

// checkArguments warns of variables that would change what the engine installs.
// Larder does not obey them: its own commands take other flags.
func (l *loader) checkArguments() {
	for _, name := range []string{"TF_CLI_ARGS", "TF_CLI_ARGS_init", "TF_CLI_ARGS_providers_lock"} {
		args, ok := splitShell(l.getenv(name))
		if !ok {
			l.warnf(place{}, "", "%s has an unclosed quote and is not used", name)
		} else if name != "TF_CLI_ARGS_providers_lock" {
			l.warnInstallFlags(name, args)
		}
	}
}

func (l *loader) warnInstallFlags(variable string, args []string) {
	for _, arg := range args {
		for _, flag := range installFlags {
			name, _, _ := strings.Cut(arg, "=")
			if name == flag || name == "-"+flag {
				l.warnf(place{}, "give larder its own flags", "%s is for the engine: larder does not obey its %s", variable, arg)
			}
		}
	}
}

// splitShell splits text into words as a shell does, expanding nothing. It is
// not ok if a quote is not closed.
func splitShell(text string) (words []string, ok bool) {
	var word strings.Builder
	var quote rune // ' or ", 0 outside
	var inWord, escaped bool
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, quote == 0 && !escaped
}
