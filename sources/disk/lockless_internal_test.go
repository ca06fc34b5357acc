//go:build unix

package disk

import (
	"errors"
	"syscall"
	"testing"
)

func TestErrorsOfLocks(t *testing.T) {
	for err, want := range map[error]struct{ held, lockless bool }{
		syscall.EWOULDBLOCK: {held: true}, syscall.EACCES: {held: true}, syscall.ENOTSUP: {lockless: true},
		syscall.ENOSYS: {lockless: true}, syscall.ENOLCK: {lockless: true}, errors.ErrUnsupported: {lockless: true},
		syscall.EBADF: {}, nil: {},
	} {
		if isHeld(err) != want.held || lockless(err) != want.lockless {
			t.Errorf("%v: held %v, no locks %v", err, isHeld(err), lockless(err))
		}
	}
}
