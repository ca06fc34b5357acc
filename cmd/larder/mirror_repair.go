package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var mirrorRepairCommand = &line.Command{
	Name:      "repair",
	Does:      "fetch damaged packages of a mirror again",
	Arguments: "DIR [FLAG...]",
	Least:     1, Most: 1, Needs: needsMirror,
	Example: "larder mirror repair ./mirror",
	About: "Verifies the mirror, and replaces damaged and missing packages with the same contents\n" +
		"as before. Corrects index.json and VERSION.json. Fails if it can't replace a package,\n" +
		"and then leaves it, and its entry in the index, as they are.",
	Flags: append([]line.Flag{
		{Group: selectionFlags, Name: "from", Value: "FROM", Kind: line.Dir, Repeatable: true,
			Does: "fetch only from these mirrors or this place"},
		endpointFlag,
		dryRunFlag("show what would be repaired"),
	}, trustFlags...),
	Leaves: "packages repaired before are complete",
	Run:    onWord(mirror.Repair),
}
