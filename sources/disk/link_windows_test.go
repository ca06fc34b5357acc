package disk

import (
	"encoding/binary"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/windows"
)

// The places in the data of a junction contain the two names.
func TestJunctionData(t *testing.T) {
	data, err := junctionData(`C:\Users\Zoë\cache\`)
	if err != nil {
		t.Fatal(err)
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }
	const names = 16
	text := func(at int) string {
		var units []uint16
		for i := range number(at+2) / 2 {
			units = append(units, uint16(number(names+number(at)+2*i)))
		}
		if end := names + number(at) + number(at+2); number(end) != 0 {
			t.Errorf("no zero at %d", end)
		}
		return string(utf16.Decode(units))
	}
	if tag := binary.LittleEndian.Uint32(data); tag != windows.IO_REPARSE_TAG_MOUNT_POINT {
		t.Errorf("tag %x", tag)
	}
	if number(4) != len(data)-8 {
		t.Errorf("length %d of %d bytes", number(4), len(data))
	}
	if got := text(8); got != `\??\C:\Users\Zoë\cache` {
		t.Errorf("opened is %q", got)
	}
	if got := text(12); got != `C:\Users\Zoë\cache` {
		t.Errorf("shown is %q", got)
	}
}
