//go:build !linux

package endpoint

import "net"

// limitUnsent does nothing, as not all systems limit it.
func limitUnsent(net.Conn) {}
