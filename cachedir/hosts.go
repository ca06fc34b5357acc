package cachedir

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources/disk"
)

// hosts is the directory in the state with a file for each host that was overloaded or out of
// reach. The modification time of the file is the end of the pause. Its size is the number of
// pauses since the last good answer. Other users who write to these files can only cause some
// waiting.
const hosts = "hosts"

// maxPauses bounds the size of the file of a host.
const maxPauses = 1 << 10

// Until returns the end of the pause for a host with its port, and the number of pauses since
// its last good answer, as recorded by the processes that use this cache. The time is zero if
// none is recorded.
func (d *Dir) Until(host string) (until time.Time, pauses int) {
	if d.state == nil {
		return time.Time{}, 0
	}
	info, err := d.state.Lstat(path.Join(hosts, hostFile(host)))
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}, 0
	}
	return info.ModTime(), int(min(info.Size(), maxPauses))
}

// Leave records the end of the pause for a host, and the number of pauses. If it can't be
// written, the pause applies to this process only.
func (d *Dir) Leave(host string, until time.Time, pauses int) {
	home := d.hostsDir()
	if home == nil {
		return
	}
	defer home.Close()
	f, err := home.EditFile(hostFile(host))
	if err != nil {
		return
	}
	_ = f.Truncate(int64(min(pauses, maxPauses)))
	f.Close()
	_ = home.Touch(hostFile(host), until) // needs the file's owner, so in a shared cache it may fail
}

// Seat locks one of n files of a host, which no other process has then, and returns the function
// that releases it. It returns false if all of them are locked. The system releases the lock of
// a process that is killed. Where no file can be locked, every process has a seat.
func (d *Dir) Seat(host string, n int) (release func(), ok bool) {
	home := d.hostsDir()
	if home == nil {
		return func() {}, true
	}
	defer home.Close()
	for _, i := range rand.Perm(n) {
		l := home.Lock(fmt.Sprintf("%s.%d.lock", hostFile(host), i))
		switch ok, err := l.Try(); {
		case err != nil:
			return func() {}, true
		case ok:
			return l.Unlock, true
		}
	}
	return nil, false
}

// hostsDir opens the directory for hosts, nil if it can't be written.
func (d *Dir) hostsDir() *disk.Dir {
	if d.readOnly != nil || d.state == nil {
		return nil
	}
	home, err := d.state.MakeSub(hosts)
	if err != nil {
		return nil
	}
	return home
}

// hostFile is the name of the file for a host. No system allows a colon in it.
func hostFile(host string) string { return strings.ReplaceAll(host, ":", "_") }
