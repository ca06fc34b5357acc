package cachedir

import (
	"path"
	"strings"
	"time"
)

// hosts is where the state has a file for each host that has asked to be left alone. Its
// modification time is until when. What others write there costs no more than a wait.
const hosts = "hosts"

// Until is until when a host, with its port, is to be left alone, as any process that uses
// this cache was asked. It is zero if that is unknown.
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

// Leave notes until when a host is to be left alone. If it can't be written, this process
// alone knows.
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
	_ = home.Touch(hostFile(host), until) // which needs the file's owner, so in a shared cache it may fail
}

// hostFile is the name of the file for a host: no system takes a colon in it.
func hostFile(host string) string { return strings.ReplaceAll(host, ":", "_") }
