package sources

import (
	"slices"
	"strings"
)

// protocols are the major versions of the plugin protocol and the engines that support each, oldest engines first.
// Source: developer.hashicorp.com/terraform/plugin/terraform-plugin-protocol.
var protocols = []struct {
	major     string
	supported bool // by the engines that Larder supports
	engines   []string
}{
	{"5", true, []string{"terraform 0.12", "tofu"}},
	{"6", true, []string{"terraform 1.0", "tofu"}},
	{"4", false, []string{"terraform 0.10 to 0.12"}},
}

// ProtocolNotSupported says about a package's plugin protocol why it isn't installed.
const ProtocolNotSupported = "is not supported (supported: 5 and 6)"

// SupportedProtocol reports whether engines support a version of the plugin protocol, such as 5.1.
func SupportedProtocol(text string) bool {
	major, _, _ := strings.Cut(text, ".")
	for _, p := range protocols {
		if p.major == major {
			return p.supported
		}
	}
	return false
}

// EnginesFor returns the oldest versions of engines that support one of these versions of the plugin protocol.
func EnginesFor(versions []string) []string {
	for _, p := range protocols {
		if slices.ContainsFunc(versions, func(v string) bool { return v == p.major || strings.HasPrefix(v, p.major+".") }) {
			return p.engines
		}
	}
	return nil
}
