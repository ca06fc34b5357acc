//go:build unix

package disk

import (
	"errors"
	"syscall"
	"testing"
)

func TestHeld(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EWOULDBLOCK: true, syscall.EACCES: true, syscall.ENOLCK: false, syscall.EBADF: false, nil: false,
	} {
		if got := isHeld(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestLockless(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENOTSUP: true, syscall.ENOSYS: true, syscall.ENOLCK: true,
		errors.ErrUnsupported: true, syscall.EACCES: false, syscall.EAGAIN: false, nil: false,
	} {
		if got := lockless(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
