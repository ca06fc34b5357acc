package cachedir

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources/disk"
)

// A mapping identifies a file that is mapped into memory. The kernel's table of
// mappings and stat name devices differently, so the file name is part of the key.
type mapping struct {
	inode uint64
	name  string
}

// running holds the files that programs run or have mapped.
type running struct {
	files  map[file]bool
	mapped map[mapping]bool
}

// findRunning examines the processes that this process has permission to examine.
func findRunning() (running, string) {
	r := running{map[file]bool{}, map[mapping]bool{}}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(processes) == 0 {
		return r, "cannot determine which packages running programs use: there is no /proc"
	}
	for _, process := range processes {
		if info, err := os.Stat(filepath.Join(process, "exe")); err == nil {
			id := disk.Identify(filepath.Join(process, "exe"), info)
			r.files[file{id.Inode, id.Volume}] = true
		}
		r.readMaps(filepath.Join(process, "maps"))
	}
	return r, ""
}

// readMaps reads lines of six columns. The fifth is the inode and the last is the
// path.
func (r running) readMaps(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			continue
		}
		inode, err := strconv.ParseUint(fields[4], 10, 64)
		if err != nil || inode == 0 {
			continue
		}
		at := strings.TrimSuffix(lines.Text(), " (deleted)")
		r.mapped[mapping{inode, at[strings.LastIndex(at, "/")+1:]}] = true
	}
}

// has reports whether a program runs or has mapped a file of an entry.
func (r running) has(e Entry) bool {
	for _, m := range e.marks {
		name := m.Path[strings.LastIndex(m.Path, "/")+1:]
		if r.files[file{m.Inode, m.Volume}] || r.mapped[mapping{m.Inode, name}] {
			return true
		}
	}
	return false
}
