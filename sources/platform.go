package sources

// A Platform is an operating system and an architecture in Go's names.
type Platform struct{ OS, Arch string }

// ParsePlatform parses "OS_ARCH".
func ParsePlatform(s string) (Platform, error) { panic("unwritten") }

// Current is the platform this program was built for.
func CurrentPlatform() Platform { panic("unwritten") }

func (p Platform) String() string { return p.OS + "_" + p.Arch }
