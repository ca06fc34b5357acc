package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/fsmirror/builder"
)

func mirrorListCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list the packages in a mirror",
		ArgsUsage: "DIR [FLAG...]",
		Description: "Tells of each package how large it is, how long it has been there, and how well\n" +
			"it was vouched for when it came. Reads no package.",
		Action: func(c *cli.Context) error { return mirrorList(c, out) },
	}
}

// mirrored is a package in a mirror, in JSON.
type mirrored struct {
	Provider string   `json:"provider"`
	Version  string   `json:"version"`
	Platform string   `json:"platform"`
	Path     string   `json:"path"`
	Unpacked bool     `json:"unpacked"`
	Size     int64    `json:"size"`
	Since    string   `json:"since"`
	Verdict  string   `json:"verdict"`
	Evidence bool     `json:"evidence"`
	Hashes   []string `json:"hashes,omitempty"`
	Origin   string   `json:"origin,omitempty"`
}

func mirroredAs(e builder.Entry) mirrored {
	m := mirrored{
		Provider: e.ID.Provider.String(), Version: e.ID.Version.String(), Platform: e.ID.Platform.String(),
		Path: e.Path, Unpacked: e.Unpacked, Size: e.Size, Since: e.Since.UTC().Format("2006-01-02T15:04:05Z"),
		Verdict: e.Verdict.String(), Evidence: e.Evidence, Origin: e.Origin,
	}
	for _, h := range e.Hashes {
		m.Hashes = append(m.Hashes, string(h))
	}
	return m
}

func mirrorList(c *cli.Context, out *output) error {
	_, b, err := mirrorHere(c, out, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	entries, err := b.List(c.Context, builder.ListOptions{})
	if err != nil {
		return err
	}
	var size int64
	for i, line := range columns(mirrorRows(entries)) {
		out.result("mirrored", mirroredAs(entries[i]), "%s", line)
		size += entries[i].Size
	}
	out.say(normal, "%s in the mirror, %s", count(len(entries), "package"), humanSize(size))
	return nil
}

func mirrorRows(entries []builder.Entry) [][]string {
	var rows [][]string
	for _, e := range entries {
		row := []string{e.ID.String(), humanSize(e.Size), since(e.Since, time.Now()), e.Verdict.String()}
		if e.Unpacked {
			row[3] += ", unpacked"
		}
		rows = append(rows, row)
	}
	return rows
}
