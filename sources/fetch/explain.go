package fetch

import (
	"errors"
	"net"
)

// Explain returns the error of a request to a host that was not answered, in plain words. It is for clients of other
// protocols that send requests themselves. If the host can't be reached, the result is an [UnreachableError].
func Explain(err error, host string) error {
	err = describe(err)
	op, dns := innermost(err), (*net.DNSError)(nil)
	if errors.As(err, &dns) || op != nil && op.Op == "dial" {
		return &UnreachableError{Host: host, Err: err}
	}
	return err
}

// Temporary reports whether the same request may succeed later, after an error of this package or of [Explain].
func Temporary(err error) bool { return temporary(err) || errors.Is(err, ErrStalled) }
