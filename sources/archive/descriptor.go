package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	hasDescriptor       = 1 << 3 // in the flags of a zip entry
	descriptorSignature = 0x08074b50
)

// checkDescriptor compares the data descriptor, which follows a file whose
// checksum was not known when it was begun, with the archive's directory. An
// archive that contradicts itself is one that engines refuse.
func (e entry) checkDescriptor(archive io.ReaderAt) error {
	if e.Flags&hasDescriptor == 0 {
		return nil
	}
	var d [8]byte // a signature, which is optional, and the checksum
	if _, err := archive.ReadAt(d[:], e.offset+int64(e.CompressedSize64)); err != nil {
		return fmt.Errorf("reading its data descriptor: %w", err)
	}
	sum := binary.LittleEndian.Uint32(d[:])
	if sum == descriptorSignature {
		sum = binary.LittleEndian.Uint32(d[4:])
	}
	if sum != e.CRC32 {
		return errors.New("its data descriptor states another CRC-32")
	}
	return nil
}
