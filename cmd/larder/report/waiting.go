package report

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// WaitingForCache shows which process holds the lock of a package in the plugin cache, or of the
// whole cache if id has no version. If OpenTofu uses the same lock, tofu is the path of its file.
// On a terminal the progress display shows it. Elsewhere a message does, one for each process.
func (o *Output) WaitingForCache(id sources.PackageID, h disk.Holder, tofu string) {
	holder := cacheHolder(id.Version == (sources.Version{}), h, tofu)
	o.Event(acquire.Event{Step: acquire.Waiting, Package: id, Text: holder})
	if _, told := o.waited.LoadOrStore(holder, true); !told && !o.progress.OnTerminal() {
		text := "waiting for " + holder
		if id != (sources.PackageID{}) {
			text = o.Package(id) + ": " + text
		}
		o.Say("%s", text)
	}
}

// cacheHolder describes the holder of a lock in the plugin cache. Without a PID, the lock is
// shared or its file is unreadable.
func cacheHolder(whole bool, h disk.Holder, tofu string) string {
	here, _ := os.Hostname()
	switch {
	case tofu != "" && h.PID == 0:
		return fmt.Sprintf("OpenTofu, which has locked %s", tofu)
	case tofu != "":
		return fmt.Sprintf("OpenTofu (pid %d), which has locked %s", h.PID, tofu)
	case whole && h.PID == 0:
		return "the processes that install from the plugin cache"
	case h.PID == 0:
		return process(0, "")
	case h.Host == here && h.PID == os.Getpid():
		return "another root module"
	case h.Host == here:
		h.Host = ""
	}
	who := process(h.PID, h.Host, "since "+h.Since.Local().Format("15:04:05"))
	if whole {
		who += " to clean the plugin cache"
	}
	return who
}

// process describes another process on a host, which may be empty, as may the PID.
func process(pid int, host string, more ...string) string {
	if pid == 0 {
		return "another larder process"
	}
	about := fmt.Sprintf("pid %d", pid)
	if host != "" {
		about += " on " + host
	}
	return "another larder process (" + strings.Join(append([]string{about}, more...), ", ") + ")"
}

// WaitingForMirror returns a function that shows which process stores a package, or changes the index of the mirror in
// dir.
func (o *Output) WaitingForMirror(dir string) func(sources.PackageID, disk.Holder) {
	return func(id sources.PackageID, h disk.Holder) {
		if id != (sources.PackageID{}) {
			o.WaitingForCache(id, h, "")
			return
		}
		o.Say("waiting for %s to finish writing to %s", process(h.PID, h.Host), dir)
	}
}

// Holder names this process for those on other machines that wait for it.
func Holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown machine"
	}
	return process(os.Getpid(), host)
}

// WaitingForPlace returns a function that shows which process changes what a place has of a provider.
func (o *Output) WaitingForPlace(place string) func(sources.Provider, string) {
	return func(p sources.Provider, holder string) {
		o.Say("waiting for %s to finish pushing %s to %s", holder, p, place)
	}
}

// CanAsk reports whether a user can answer questions.
func (o *Output) CanAsk() bool { return !o.JSON && ui.IsTerminal(os.Stdin) }

// Ask asks a question on the terminal. Every answer except yes means no. A canceled context ends
// the wait for the answer, but the read of standard input continues, because it cannot be
// interrupted.
func (o *Output) Ask(ctx context.Context, question string) (bool, error) {
	o.screen.Write(o.Stderr, ui.Visible(question)+" [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case line := <-answer:
		yes := line == "y" || line == "yes"
		if !yes {
			o.Say("Nothing was removed")
		}
		return yes, nil
	}
}
