//go:build unix

package installer_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A lock file of a checkout may have as many hashes and providers as its size permits. The time to
// lock grows with their number, and not with its square.
func TestTimeGrowsWithTheLockFile(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector takes most of the time")
	}
	lock := func(prepare func(f *fixture, n int), strict bool) func(*testing.T, int) func() {
		return func(t *testing.T, n int) func() {
			f := newUnknownFixture(t)
			f.opts.Platforms = []sources.Platform{platform("linux_amd64")}
			prepare(f, n)
			l := f.locker()
			l.Strict = strict
			return func() {
				sourcetest.Must(l.Lock(t.Context(), f.root))(t)
			}
		}
	}
	hashes := func(f *fixture, n int) {
		all := []sources.Hash{h1(onLinux), zh(onLinux)}
		for i := range n / 2 {
			all = append(all, zh(fmt.Sprint(i)), h1(fmt.Sprint(i)))
		}
		f.lock("widget 1.0.0", all...)
	}
	signed := func(f *fixture, n int) {
		var packages []string
		for i := range n / 16 { // more lines are refused
			packages = append(packages, fmt.Sprintf("widget 1.0.0 a%d_b", i))
		}
		f.source.add(onLinux, signedAll(append(packages, onLinux)...))
		hashes(f, n)
	}
	providers := func(f *fixture, n int) {
		var text []byte
		for i := range n / 25 { // more providers are refused
			text = fmt.Appendf(text, "\nprovider \"example.test/acme/p%d\" {\n  version = \"1.0.0\"\n}\n", i)
		}
		f.must(os.WriteFile(f.lockPath(), text, 0o644))
		f.lock("widget 1.0.0", h1(onLinux))
	}
	for name, test := range map[string]func(*testing.T, int) func(){
		"hashes": lock(hashes, false), "strict": lock(hashes, true),
		"signed checksums": lock(signed, false), "providers": lock(providers, false),
		"unread state": func(t *testing.T, n int) func() {
			f := newUnknownFixture(t)
			providers(f, n)
			entries := f.root.Lock.Entries()
			return func() { sourcetest.Equal(t, len(f.root.Lock.Rest(entries[:n/50])), n/25+1-n/50) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.OneIn(t, 4)
			growsLinearly(t, test)
		})
	}
}

// growsLinearly fails if sixteen times the input takes more than 64 times as much CPU time: in quadratic time it would
// take up to 256 times as much. The fastest runs count, and there are several attempts, because a machine may be busy.
// Less than two seconds are too little to compare.
func growsLinearly(t *testing.T, prepare func(t *testing.T, n int) func()) {
	const some, times = 1500, 16
	few, many := time.Hour, time.Hour
	for range 4 {
		for n, least := range map[int]*time.Duration{some: &few, some * times: &many} {
			run := prepare(t, n)
			begun := spent(t)
			run()
			*least = min(*least, spent(t)-begun)
		}
		if many < max(4*times*few, 2*time.Second) {
			return
		}
	}
	t.Errorf("%d take %s, %d take %s", some, few, some*times, many)
}

// spent returns the CPU time of this process.
func spent(t *testing.T) time.Duration {
	var u syscall.Rusage
	sourcetest.Check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
