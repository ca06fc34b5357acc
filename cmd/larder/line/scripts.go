package line

import "embed"

// Shells are the shells that have completion scripts.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

//go:embed completion
var scripts embed.FS

// Script returns the completion script of a shell. It runs larder __complete to list completions, one on each line with
// a description after a tab. A last line of :files or :dirs adds names of files or directories.
func Script(shell string) string {
	text, _ := scripts.ReadFile("completion/larder." + shell) // each of Shells has one
	return string(text)
}
