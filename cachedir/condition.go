package cachedir

import (
	"errors"

	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/seal"
)

// A Condition is what can be found out about a package without hashing it.
type Condition struct {
	NotExecutable error // why engines could not start the provider; nil if they could
	Foreign       bool  // its record was made with another key, so this user's Larder does not accept it
}

// Condition examines an entry of a listing.
func (d *Dir) Condition(e Entry) Condition {
	var c Condition
	if e.Target == "" {
		if _, err := checkExecutable(e.Dir, e.marks, e.ID); errors.Is(err, archive.ErrNotExecutable) {
			c.NotExecutable = err
		}
	}
	_, err := d.tryRecord(recordPath(e.ID))
	c.Foreign = errors.Is(err, seal.ErrForeign)
	return c
}

// Lockless returns the error of a file system without locks, as far as that can be found out without
// creating a file: only in a cache that Larder has used before.
func (d *Dir) Lockless() error {
	if d.common == nil || d.shared { // a lock of several users may get another mode
		return nil
	}
	lock := d.common.Lock("cache.lock")
	lock.Existing = true
	defer lock.Unlock()
	_, _ = lock.TryShared() // fails if the file does not exist yet
	return lock.Lockless
}
