package legacy

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

func elfHead(class, data, abi byte, kind, machine uint16) string {
	head := append([]byte("\x7fELF"), class, data, 1, abi, 0, 0, 0, 0, 0, 0, 0, 0)
	var order binary.AppendByteOrder = binary.BigEndian
	if data == 1 {
		order = binary.LittleEndian
	}
	return string(order.AppendUint16(order.AppendUint16(head, kind), machine))
}

func peHead(machine uint16) string {
	head := make([]byte, 0x80)
	copy(head, "MZ")
	head[0x3c] = 0x80
	return string(binary.LittleEndian.AppendUint16(append(head, "PE\x00\x00"...), machine))
}

func fatHead(cpus ...uint32) string {
	head := binary.BigEndian.AppendUint32([]byte("\xca\xfe\xba\xbe"), uint32(len(cpus)))
	for _, cpu := range cpus {
		head = append(binary.BigEndian.AppendUint32(head, cpu), make([]byte, 16)...)
	}
	return string(head)
}

func TestHeaders(t *testing.T) {
	for _, tt := range []struct{ what, head, want string }{
		{"Linux", elfHead(2, 1, 0, 2, 62), "linux_amd64"},
		{"position independent", elfHead(2, 1, 0, 3, 62), "linux_amd64"},
		{"GNU", elfHead(2, 1, 3, 2, 183), "linux_arm64"},
		{"FreeBSD", elfHead(2, 1, 9, 2, 62), "freebsd_amd64"},
		{"OpenBSD", elfHead(1, 1, 12, 2, 3), "openbsd_386"},
		{"NetBSD", elfHead(1, 1, 2, 2, 40), "netbsd_arm"},
		{"little PowerPC", elfHead(2, 1, 0, 2, 21), "linux_ppc64le"},
		{"big PowerPC", elfHead(2, 2, 0, 2, 21), "linux_ppc64"},
		{"big MIPS", elfHead(1, 2, 0, 2, 8), "linux_mips"},
		{"mainframe", elfHead(2, 2, 0, 2, 22), "linux_s390x"},
		{"Solaris", elfHead(2, 1, 0, 2, 62) + "...\x00/lib/amd64/ld.so.1\x00", "solaris_amd64"},
		{"Linux with a loader", elfHead(2, 1, 0, 2, 62) + "...\x00/lib64/ld-linux-x86-64.so.2\x00", "linux_amd64"},
		{"object file", elfHead(2, 1, 0, 1, 62), ""},
		{"unknown machine", elfHead(2, 1, 0, 2, 999), ""},
		{"unknown system", elfHead(2, 1, 77, 2, 62), ""},
		{"truncated", elfHead(2, 1, 0, 2, 62)[:19], ""},
		{"Mac", "\xcf\xfa\xed\xfe\x07\x00\x00\x01", "darwin_amd64"},
		{"Mac with ARM", "\xcf\xfa\xed\xfe\x0c\x00\x00\x01", "darwin_arm64"},
		{"old Mac", "\xfe\xed\xfa\xce\x00\x00\x00\x07", "darwin_386"},
		{"truncated Mac", "\xcf\xfa\xed\xfe\x0c", ""},
		{"universal", fatHead(0x01000007, 0x0100000c), "darwin_amd64 and darwin_arm64"},
		{"universal, the same twice", fatHead(0x01000007, 0x01000007), "darwin_amd64"},
		{"universal, one unknown", fatHead(99, 0x0100000c), "darwin_arm64"},
		{"empty universal", fatHead(), ""},
		{"universal, truncated", fatHead(0x01000007)[:27], ""},
		{"Java class", "\xca\xfe\xba\xbe\x00\x00\x00\x34" + strings.Repeat("\x01\x00\x00\x07", 400), ""},
		{"Windows", peHead(0x8664), "windows_amd64"},
		{"Windows, 32 bits", peHead(0x14c), "windows_386"},
		{"Windows with ARM", peHead(0xaa64), "windows_arm64"},
		{"DOS", peHead(0x8664)[:0x80], ""},
		{"Windows beyond the end", strings.Replace(peHead(0x8664), "\x80\x00\x00\x00PE", "\xff\xff\xff\xffPE", 1)[:0x84], ""},
		{"script", "#!/bin/sh\n", ""},
		{"nothing", "", ""},
	} {
		h, err := readHeader(strings.NewReader(tt.head))
		if got := strings.Join(sources.Texts(h.platforms()), " and "); got != tt.want || err != nil {
			t.Errorf("%s: got %s, %v", tt.what, got, err)
		}
	}
}

func TestHeaderOfThisProgram(t *testing.T) {
	path, err := os.Executable()
	check(t, err)
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	h, err := readHeader(f)
	if here := sources.CurrentPlatform(); err != nil || h.contradicts(here) || strings.Join(sources.Texts(h.platforms()), " and ") != here.String() && runtime.GOOS != "android" {
		t.Errorf("got %+v, %v, on %s", h, err, here)
	}
}

func TestWhatHeadersContradict(t *testing.T) {
	for _, tt := range []struct {
		head, platform string
		want           bool
	}{
		{elfHead(2, 1, 0, 2, 62), "linux_amd64", false},
		{elfHead(2, 1, 0, 2, 62), "solaris_amd64", false}, // its header names no system
		{elfHead(2, 1, 0, 2, 62), "freebsd_amd64", true},
		{elfHead(2, 1, 0, 2, 62), "linux_arm64", true},
		{peHead(0x8664), "linux_amd64", true},
		{"a script", "linux_amd64", false},
	} {
		p, err := sources.ParsePlatform(tt.platform)
		check(t, err)
		sourcetest.Equal(t, parseHeader([]byte(tt.head)).contradicts(p), tt.want, tt.head, p)
	}
}

// For any first bytes of a file, the platforms are known ones or there are none, and
// later bytes don't matter.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(elfHead(2, 1, 0, 2, 62)))
	f.Add([]byte(peHead(0x8664)))
	f.Add([]byte(fatHead(0x01000007, 0x0100000c)))
	f.Add([]byte("\xcf\xfa\xed\xfe\x07\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, head []byte) {
		h, err := readHeader(bytes.NewReader(head))
		check(t, err)
		for _, p := range h.platforms() {
			_, ok := knownPlatform(p.String())
			sourcetest.Expect(t, ok && !h.contradicts(p), "is for %s", p)
		}
		sourcetest.Expect(t, (h.format == "") == (len(h.platforms()) == 0), "is of format %q for %v", h.format, h.platforms())
	})
}
