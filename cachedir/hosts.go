package cachedir

import (
	"path"
	"strings"
	"time"
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
	if d.common == nil {
		return time.Time{}, 0
	}
	for _, at := range d.places() {
		info, err := d.common.Lstat(path.Join(at, hosts, hostFile(host)))
		if err == nil && info.Mode().IsRegular() && info.ModTime().After(until) {
			until, pauses = info.ModTime(), int(min(info.Size(), maxPauses))
		}
	}
	return until, pauses
}

// Leave records the end of the pause for a host, and the number of pauses. If it can't be
// written, the pause applies to this process only.
func (d *Dir) Leave(host string, until time.Time, pauses int) {
	if d.readOnly != nil || d.state == nil {
		return
	}
	home, err := d.state.MakeSub(hosts) // each user has files, as no other user can set their times
	if err != nil {
		return
	}
	defer home.Close()
	f, err := home.EditFile(hostFile(host))
	if err != nil {
		return
	}
	_ = f.Truncate(int64(min(pauses, maxPauses)))
	f.Close()
	_ = home.Touch(hostFile(host), until)
}

// hostFile is the name of the file for a host. No system allows a colon in it.
func hostFile(host string) string { return strings.ReplaceAll(host, ":", "_") }
