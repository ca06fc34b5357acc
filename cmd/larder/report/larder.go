package report

import "fmt"

// A Version describes this program.
type Version struct {
	Typed    `type:"version"`
	Version  string `json:"version"`          // without a leading v; devel if unknown
	Commit   string `json:"commit,omitempty"` // hexadecimal; empty if unknown
	Platform string `json:"platform"`
	Go       string `json:"go"`
}

// Text implements [Value].
func (v Version) Text(*Output) string {
	return fmt.Sprintf("larder %s %s%s, %s", v.Version, v.Platform, Labeled(", commit ", v.Commit), v.Go)
}

// A Completion is the completion script of a shell.
type Completion struct {
	Typed  `type:"completion"`
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

// A Shim is a link or a script that was changed.
type Shim struct {
	Typed  `type:"shim"`
	Path   string `json:"path"`
	Target string `json:"target"`
	Did    string `json:"did"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Text implements [Value].
func (s Shim) Text(o *Output) string {
	return o.Shorten(s.Path) + "  " + Said(s.DryRun, "would be ", "") + s.Did
}

// A ShimSum is the summary of changed shims.
type ShimSum struct {
	Links  int  `json:"links"` // created or removed
	DryRun bool `json:"dry_run,omitempty"`
}

// An ExitStatus describes an exit status.
type ExitStatus struct {
	Typed   `type:"exit_status"`
	Status  int    `json:"status"`
	Meaning string `json:"meaning"`
	When    string `json:"when"`
}

// A Topic is help about a subject.
type Topic struct {
	Typed `type:"topic"`
	Topic string `json:"topic"`
	Text  string `json:"text"`
}
