package cachedir

import (
	"path"
	"strings"
	"time"
)

// hosts is the directory in the state with a file for each host that requests pause
// for. The modification time of the file is the end of the pause. Other users who
// write to these files can only cause some waiting.
const hosts = "hosts"

// Until returns the end of the pause for a host with its port, as recorded by the
// processes that use this cache. It is zero if none is recorded.
func (d *Dir) Until(host string) time.Time {
	if d.state == nil {
		return time.Time{}
	}
	info, err := d.state.Lstat(path.Join(hosts, hostFile(host)))
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}

// Leave records the end of the pause for a host. If it can't be written, the pause
// applies to this process only.
func (d *Dir) Leave(host string, until time.Time) {
	if d.readOnly != nil || d.state == nil {
		return
	}
	home, err := d.state.MakeSub(hosts)
	if err != nil {
		return
	}
	defer home.Close()
	f, err := home.EditFile(hostFile(host))
	if err != nil {
		return
	}
	f.Close()
	_ = home.Touch(hostFile(host), until) // only the file's owner may do this, so it may fail in a shared cache
}

// hostFile returns the file name for a host. Windows does not allow a colon in it.
func hostFile(host string) string { return strings.ReplaceAll(host, ":", "_") }
