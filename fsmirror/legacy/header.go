package legacy

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// A header is the information in an executable's first bytes. The zero header is that
// of a file in an unknown format.
type header struct {
	format  string
	systems []string // the first is the default
	archs   []string
}

// platforms returns the default platforms.
func (h header) platforms() []sources.Platform {
	var all []sources.Platform
	for _, arch := range h.archs {
		all = append(all, sources.Platform{OS: h.systems[0], Arch: arch})
	}
	return all
}

// contradicts reports whether the executable cannot be for p.
func (h header) contradicts(p sources.Platform) bool {
	return h.format != "" && (!slices.Contains(h.systems, p.OS) || !slices.Contains(h.archs, p.Arch))
}

// headSize is the number of bytes to read from a file. The header of a Windows
// executable follows a small DOS program.
const headSize = 4096

// tarMagic is the offset of the magic number in tar files.
const tarMagic = 257

// readHeader reads the beginning of a file.
func readHeader(r io.Reader) (header, error) {
	head := make([]byte, headSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return header{}, err
	}
	if head = head[:n]; n > tarMagic && bytes.HasPrefix(head[tarMagic:], []byte("ustar")) {
		return header{}, errors.New("it is a tar file, not an executable")
	}
	return parseHeader(head), nil
}

// parseHeader parses only the fields that are required. The packages debug/… read
// much more and are not designed for untrusted input. The parsers leave the system or the
// architecture empty if it is unknown.
func parseHeader(head []byte) header {
	for _, parse := range []func([]byte) header{parseELF, parsePE, parseMachO, parseFat} {
		if h := parse(head); len(h.systems) > 0 && len(h.archs) > 0 && h.archs[0] != "" {
			return h
		}
	}
	return header{}
}

// elfSystems maps the operating systems in ELF headers. Most executables have none.
var elfSystems = map[elf.OSABI][]string{
	elf.ELFOSABI_NONE:    {"linux", "android", "dragonfly", "illumos", "solaris"},
	elf.ELFOSABI_LINUX:   {"linux", "android"},
	elf.ELFOSABI_FREEBSD: {"freebsd"},
	elf.ELFOSABI_NETBSD:  {"netbsd"},
	elf.ELFOSABI_OPENBSD: {"openbsd"},
	elf.ELFOSABI_SOLARIS: {"solaris", "illumos"},
}

// elfLoaders are the dynamic loaders of systems that ELF headers do not identify.
// Executables contain the path of the loader soon after the header. These suffice to
// detect executables that would otherwise be taken for Linux.
var elfLoaders = []struct {
	path    string
	systems []string
}{
	{"\x00/lib/amd64/ld.so.1\x00", []string{"solaris", "illumos"}},
	{"\x00/usr/libexec/ld-elf.so.2\x00", []string{"dragonfly"}},
}

// elfArchs is keyed by machine, whether words have 64 bits, and whether the byte
// order is little-endian.
var elfArchs = map[elfMachine]string{
	{elf.EM_386, false, true}:      "386",
	{elf.EM_X86_64, true, true}:    "amd64",
	{elf.EM_ARM, false, true}:      "arm",
	{elf.EM_AARCH64, true, true}:   "arm64",
	{elf.EM_LOONGARCH, true, true}: "loong64",
	{elf.EM_MIPS, false, false}:    "mips",
	{elf.EM_MIPS, false, true}:     "mipsle",
	{elf.EM_MIPS, true, false}:     "mips64",
	{elf.EM_MIPS, true, true}:      "mips64le",
	{elf.EM_PPC64, true, false}:    "ppc64",
	{elf.EM_PPC64, true, true}:     "ppc64le",
	{elf.EM_RISCV, true, true}:     "riscv64",
	{elf.EM_S390, true, false}:     "s390x",
}

type elfMachine struct {
	machine elf.Machine
	wide    bool
	little  bool
}

func parseELF(head []byte) header {
	const kindAt, machineAt, end = 16, 18, 20
	if len(head) < end || !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return header{}
	}
	m := elfMachine{wide: head[elf.EI_CLASS] == byte(elf.ELFCLASS64), little: head[elf.EI_DATA] == byte(elf.ELFDATA2LSB)}
	var order binary.ByteOrder = binary.BigEndian
	if m.little {
		order = binary.LittleEndian
	}
	kind := elf.Type(order.Uint16(head[kindAt:]))
	if kind != elf.ET_EXEC && kind != elf.ET_DYN { // executables; position-independent ones are ET_DYN
		return header{}
	}
	m.machine = elf.Machine(order.Uint16(head[machineAt:]))
	found := elfSystems[elf.OSABI(head[elf.EI_OSABI])]
	for _, l := range elfLoaders {
		if bytes.Contains(head, []byte(l.path)) {
			found = l.systems
		}
	}
	return header{"ELF", found, []string{elfArchs[m]}}
}

var peArchs = map[uint16]string{
	pe.IMAGE_FILE_MACHINE_I386:  "386",
	pe.IMAGE_FILE_MACHINE_AMD64: "amd64",
	pe.IMAGE_FILE_MACHINE_ARMNT: "arm",
	pe.IMAGE_FILE_MACHINE_ARM64: "arm64",
}

func parsePE(head []byte) header {
	const offsetAt, dosEnd = 0x3c, 0x40
	signature := []byte("PE\x00\x00")
	if len(head) < dosEnd || !bytes.HasPrefix(head, []byte("MZ")) {
		return header{}
	}
	at := uint64(binary.LittleEndian.Uint32(head[offsetAt:]))
	if at+6 > uint64(len(head)) || !bytes.HasPrefix(head[at:], signature) {
		return header{}
	}
	return header{"PE", []string{"windows"}, []string{peArchs[binary.LittleEndian.Uint16(head[at+4:])]}}
}

var machoArchs = map[macho.Cpu]string{
	macho.Cpu386: "386", macho.CpuAmd64: "amd64", macho.CpuArm: "arm", macho.CpuArm64: "arm64",
	macho.CpuPpc64: "ppc64",
}

var macSystems = []string{"darwin", "ios"}

func parseMachO(head []byte) header {
	if len(head) < 8 {
		return header{}
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if magic := order.Uint32(head); magic == macho.Magic32 || magic == macho.Magic64 {
			return header{"Mach-O", macSystems, []string{machoArchs[macho.Cpu(order.Uint32(head[4:]))]}}
		}
	}
	return header{}
}

// parseFat parses the header of a universal binary. Java class files begin with the
// same bytes, which would mean a large number of executables.
func parseFat(head []byte) header {
	const most, begin, each = 16, 8, 20
	if len(head) < begin || binary.BigEndian.Uint32(head) != macho.MagicFat {
		return header{}
	}
	n := int(min(binary.BigEndian.Uint32(head[4:]), most+1))
	if n > most || len(head) < begin+n*each {
		return header{}
	}
	h := header{format: "universal Mach-O", systems: macSystems}
	for i := range n {
		arch, ok := machoArchs[macho.Cpu(binary.BigEndian.Uint32(head[begin+i*each:]))]
		if ok && !slices.Contains(h.archs, arch) {
			h.archs = append(h.archs, arch)
		}
	}
	return h
}

func (h header) String() string { return fmt.Sprintf("its %s header", h.format) }
