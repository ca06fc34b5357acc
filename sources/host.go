package sources

import (
	"errors"
	"fmt"
	"strings"

	svchost "github.com/hashicorp/terraform-svchost"
	"golang.org/x/net/idna"
)

// A Host is a registry's host name as shown to people: in lower case and
// Unicode, with its port unless that is 443. [ParseHost] creates it.
type Host string

// ParseHost parses "HOST" or "HOST:PORT". It rejects punycode, so that a host
// has only one spelling; see [ParsePunycodeHost].
func ParseHost(s string) (Host, error) {
	h, err := parseHost(s)
	if err != nil {
		return "", fmt.Errorf("host name %.*q: %w", maxName, s, err)
	}
	return h, nil
}

// ParsePunycodeHost is like ParseHost, but accepts punycode. It is for places
// that cannot contain Unicode, such as names of environment variables.
func ParsePunycodeHost(s string) (Host, error) {
	if len(s) > maxName {
		return ParseHost(s)
	}
	return ParseHost(svchost.ForDisplay(s))
}

// maxName is the maximum length of hosts, namespaces and types, in bytes. They
// are used as names of directories, and decoding punycode takes quadratic time.
const maxName = 255

// ASCII returns the host in punycode, the form in URLs and for credentials
// helpers.
func (h Host) ASCII() string {
	ascii, err := svchost.ForComparison(string(h))
	if err != nil { // the host does not come from ParseHost
		return string(h)
	}
	return string(ascii)
}

func parseHost(s string) (Host, error) {
	if len(s) > maxName {
		return "", fmt.Errorf("longer than %d bytes", maxName)
	}
	if strings.Contains(s, "://") {
		return "", WithHint(errors.New("a URL, not a host name"), "give just the host name, without scheme and path")
	}
	if err := checkPort(s); err != nil {
		return "", err
	}
	ascii, err := svchost.ForComparison(s)
	if err != nil {
		return "", hostError(s, err)
	}
	name, port, hasPort := strings.Cut(string(ascii), ":")
	name, err = idna.Lookup.ToUnicode(name)
	if err != nil {
		return "", hostError(s, err)
	}
	if hasPort {
		name += ":" + port
	}
	// Mapping can yield forbidden names, such as ".." from two full-width dots.
	// The name becomes the name of a directory, so parsing it again must yield
	// the same name.
	if again, err := svchost.ForComparison(name); err != nil || again != ascii {
		return "", hostError(s, errors.New("ambiguous"))
	}
	return Host(name), nil
}

// checkPort accepts only digits; svchost would accept a sign too.
func checkPort(s string) error {
	_, port, ok := strings.Cut(s, ":")
	if ok && (port == "" || strings.Trim(port, "0123456789") != "") {
		return fmt.Errorf("port %q is not a number", port)
	}
	return nil
}

func hostError(s string, err error) error {
	if strings.Contains(strings.ToLower(s), "xn--") {
		return WithHint(errors.New("in punycode"), "write the name in Unicode: %s", svchost.ForDisplay(s))
	}
	if strings.HasPrefix(err.Error(), "idna:") {
		return errors.New("is not a valid host name")
	}
	return err
}
