package disk

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A mapping identifies a file that is mapped into memory. The kernel's table of
// mappings and stat name devices differently, so the file name is part of the key.
type mapping struct {
	inode uint64
	name  string
}

// Running holds the files that programs run or have mapped.
type Running struct {
	files  map[FileID]bool
	mapped map[mapping]bool
}

// FindRunning examines the processes that this process has permission to examine.
func FindRunning() (Running, string) {
	r := Running{map[FileID]bool{}, map[mapping]bool{}}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(processes) == 0 {
		return r, "cannot determine which packages running programs use: there is no /proc"
	}
	for _, process := range processes {
		if info, err := os.Stat(filepath.Join(process, "exe")); err == nil {
			id := Identify(filepath.Join(process, "exe"), info)
			r.files[FileID{id.Inode, id.Volume}] = true
		}
		r.readMaps(filepath.Join(process, "maps"))
	}
	return r, ""
}

// readMaps reads lines of six columns. The fifth is the inode and the last is the
// path.
func (r Running) readMaps(path string) {
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

// Has reports whether a program runs or has mapped a file of this name and identity.
func (r Running) Has(name string, id FileID) bool {
	return r.files[id] || r.mapped[mapping{id.Inode, name}]
}
