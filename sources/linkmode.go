package sources

// A LinkMode is how a package in a store is linked to another place.
type LinkMode string

// The link modes. LinkAuto tries reflink, hardlink, symlink and copy in turn.
const (
	LinkAuto    LinkMode = "auto"
	LinkReflink LinkMode = "reflink"
	LinkHard    LinkMode = "hardlink"
	LinkSymlink LinkMode = "symlink"
	LinkCopy    LinkMode = "copy"
)

// LinkModes are all link modes, in the order of the help text.
var LinkModes = []LinkMode{LinkAuto, LinkHard, LinkSymlink, LinkReflink, LinkCopy}
