package sources

// A Host is a registry's host name in the form shown to people: lower case,
// Unicode, with its port unless that is 443. It is made by [ParseHost].
type Host string

// ParseHost parses "HOST" or "HOST:PORT".
func ParseHost(s string) (Host, error) { panic("unwritten") }

// ASCII is the form that goes into URLs and credentials helpers: punycode.
func (h Host) ASCII() string { panic("unwritten") }
