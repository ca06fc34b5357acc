package main

// The help texts leave out what is at its default and fit a screen of 24 lines.
const appHelp = `larder - {{.Usage}}

Usage: larder COMMAND [FLAG...]

{{range .VisibleCommands}}  {{printf "%-12s" .Name}} {{.Usage}}
{{end}}
Flags of every command:
{{range .VisibleFlags}}{{with printf "%s" .}}  {{.}}
{{end}}{{end}}
Exit status: 0 done, 1 failed, 2 used wrongly, 130 interrupted.
`

const commandHelp = `larder {{.Name}} - {{.Usage}}

Usage: larder {{.Name}} {{.ArgsUsage}}

{{range .VisibleFlagCategories}}{{if ne .Name "global"}}{{range .Flags}}  {{.}}
{{end}}{{end}}{{end}}
{{.Description}}

For the flags of every command see larder help.
`
