package sources

import (
	"fmt"
	"slices"
	"strings"
)

// maxSlips is how many slips of the fingers make a word another word.
const maxSlips = 2

// Nearest returns the known word that word was most likely meant to be: misspelled by one or
// two slips, or cut short. It returns "" if word is like none of them, and the first of
// several that are equally near.
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", maxSlips+1
	for _, k := range known {
		lower := strings.ToLower(k)
		d, most := slips(word, lower), (len(lower)+1)/3
		if strings.HasPrefix(lower, word) {
			most = len(lower) / 2
			if len(word) > 3 {
				d = min(d, maxSlips)
			}
		}
		if d <= most && (d < least || d == least && letters(lower) == letters(word)) { // swapping them is the likeliest slip
			best, least = k, d
		}
	}
	return best
}

// letters returns the sorted letters of a word.
func letters(word string) string { return string(slices.Sorted(slices.Values([]rune(word)))) }

// DidYouMean gives err a hint with the known word that is nearest to word, if any is.
// Otherwise it adds the other hint, unless that is empty.
func DidYouMean(err error, word string, known []string, otherwise string) error {
	switch near := Nearest(word, known); {
	case near != "" && near != word:
		return WithHint(err, "did you mean %q?", near)
	case otherwise != "":
		return WithHint(err, "%s", otherwise)
	}
	return err
}

// slips returns the Damerau-Levenshtein distance of two words: how many characters must
// be inserted, deleted or replaced, or swapped with the next one, to turn a into b. No
// character is changed twice.
func slips(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := func() []int { return make([]int, len(to)+1) }
	before, last, now := row(), row(), row() // distances of the first i-2, i-1 and i characters of a
	for j := range last {
		last[j] = j
	}
	for i, x := range from {
		now[0] = i + 1
		for j, y := range to {
			replaced := last[j]
			if x != y {
				replaced++
			}
			now[j+1] = min(replaced, last[j+1]+1, now[j]+1)
			if i > 0 && j > 0 && x == to[j-1] && from[i-1] == y {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(to)]
}

// Go's operating systems and architectures, for which providers can be built. Those that
// older releases of Go had are listed too, as old packages exist.
var (
	goSystems = []string{
		"linux", "darwin", "windows", "freebsd", "openbsd", "netbsd", "solaris",
		"aix", "android", "dragonfly", "illumos", "ios", "js", "nacl", "plan9", "wasip1", "zos",
	}
	goArchs = []string{
		"amd64", "arm64", "386", "arm",
		"loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x", "sparc64", "wasm",
	}
)

// ParseKnownPlatform parses a platform with a system and an architecture for which Go builds, or has built, programs.
// So a misspelled platform fails where it is read.
func ParseKnownPlatform(s string) (Platform, error) {
	p, err := ParsePlatform(s)
	if err == nil && slices.Contains(goSystems, p.OS) && slices.Contains(goArchs, p.Arch) {
		return p, nil
	}
	err = fmt.Errorf("platform %q is unknown", s)
	if near := nearestPlatform(s); near != "" {
		return p, WithHint(err, "did you mean %q?", near)
	}
	return p, WithHint(err, "write it as OS_ARCH, such as linux_amd64 or darwin_arm64")
}

// otherNames replaces what others call systems and architectures, and what they separate them with.
var otherNames = strings.NewReplacer(
	"x86_64", "amd64", "x86-64", "amd64", "x64", "amd64", "aarch64", "arm64", "i386", "386", "i686", "386", "x86", "386",
	"armv6", "arm", "armv7", "arm", "macos", "darwin", "osx", "darwin", "win32", "windows", "win64", "windows",
	"-", "_", "/", "_", ".", "_", " ", "_",
)

// nearestPlatform returns the platform that a text was most likely meant to be, such as
// darwin_arm64 for macos-aarch64, and "" if there is none.
func nearestPlatform(text string) string {
	system, arch, _ := strings.Cut(otherNames.Replace(strings.ToLower(text)), "_")
	system, arch = Nearest(system, goSystems), Nearest(arch, goArchs)
	if system == "" || arch == "" {
		return ""
	}
	return Platform{system, arch}.String()
}
