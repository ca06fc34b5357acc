package cliconfig

import "strings"

// Arguments are what a variable adds to commands of Terraform and OpenTofu.
// Larder does not obey them: its own commands take other flags.
type Arguments struct {
	Variable string
	Args     []string
}

// installFlags are the flags of init that bear on which providers get
// installed, and from where.
var installFlags = []string{"-upgrade", "-lockfile", "-plugin-dir", "-get-plugins"}

// arguments are the variables of arguments that are set. It warns of those that
// would have changed what is installed.
func (l *loader) arguments() []Arguments {
	var all []Arguments
	for _, name := range []string{"TF_CLI_ARGS", "TF_CLI_ARGS_init", "TF_CLI_ARGS_providers_lock"} {
		text := l.getenv(name)
		if text == "" {
			continue
		}
		args, ok := splitShell(text)
		if !ok {
			l.warnf(place{}, "", "%s has an unclosed quote and is not used", name)
			continue
		}
		all = append(all, Arguments{name, args})
		if name != "TF_CLI_ARGS_providers_lock" {
			l.warnInstallFlags(name, args)
		}
	}
	return all
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
