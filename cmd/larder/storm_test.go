//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Thirty processes use a registry with a rate limit at once. It refuses few requests, each process
// reports once for each of two hosts that it waits, and all succeed.
func TestProcessesShareALimitedRegistry(t *testing.T) {
	t.Parallel()
	for _, i := range sourcetest.Sample(t, 2, 1) {
		retryAfter := []string{"", "1"}[i-1]
		t.Run("Retry-After "+retryAfter, func(t *testing.T) {
			s := newStorm(t, 30)
			s.world.Registry.Fault(sourcetest.Fault{Status: http.StatusTooManyRequests, RetryAfter: retryAfter, Limit: 40})
			s.install()
			sourcetest.Expect(t, s.failed == 0, "%d processes failed: %s", s.failed, s.output)
			sourcetest.Expect(t, s.refused() < 200, "%d requests were refused", s.refused())
			sourcetest.Expect(t, s.lines() <= 2*s.processes, "%d lines: %s", s.lines(), s.output)
		})
	}
}

// All processes soon give up a registry that refuses all requests, or that does not exist.
func TestProcessesGiveUpARegistry(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*sourcetest.Server){
		"unavailable": func(r *sourcetest.Server) { r.Fault(sourcetest.Fault{Status: http.StatusServiceUnavailable}) },
		"stopped":     (*sourcetest.Server).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorm(t, 30)
			s.tries = 3
			trouble(s.world.Registry)
			s.install()
			sourcetest.Expect(t, s.failed == s.processes, "%d processes failed: %s", s.failed, s.output)
			sourcetest.Expect(t, s.lines() <= 2*s.processes, "%d lines: %s", s.lines(), s.output)
			sourcetest.Expect(t, s.took < time.Minute, "took %s", s.took)
		})
	}
}

// Processes that are killed while they wait block no other process.
func TestKilledProcessesDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 30)
	s.killed = 10
	s.world.Registry.Fault(sourcetest.Fault{Status: http.StatusTooManyRequests, Limit: 40})
	s.install()
	sourcetest.Expect(t, s.failed <= s.killed, "%d processes failed: %s", s.failed, s.output)
	sourcetest.Expect(t, s.took < time.Minute, "took %s", s.took)
}

// A storm is many processes on one cache, each with a root module of its own.
type storm struct {
	*testing.T
	world     *sourcetest.World
	dir       string
	processes int
	tries     int // number of times that each request is tried again; 0 means the default
	killed    int // number of processes killed after a while

	mu     sync.Mutex
	failed int
	output string // of all, what is reported of requests
	took   time.Duration
}

func newStorm(t *testing.T, processes int) *storm {
	t.Helper()
	s := &storm{T: t, world: sourcetest.New(t), dir: t.TempDir(), processes: processes}
	for n := range s.processes {
		var types []string
		for i := range 2 {
			types = append(types, fmt.Sprintf("p%dx%d", n, i))
			s.world.Add("registry.terraform.io/acme/"+types[i], "1.0.0", sourcetest.Release{})
		}
		dir := s.module(n)
		sourcetest.Check(t, os.MkdirAll(dir, 0o755))
		sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(sourcetest.Configuration(types...)), 0o644))
	}
	return s
}

func (s *storm) module(n int) string { return filepath.Join(s.dir, fmt.Sprint(n)) }

// install runs all processes at once, and waits for them.
func (s *storm) install() {
	s.Helper()
	start := time.Now()
	var all sync.WaitGroup
	for n := range s.processes {
		all.Go(func() {
			var out bytes.Buffer
			cmd := s.command(n)
			cmd.Stdout, cmd.Stderr = &out, &out
			sourcetest.Check(s, cmd.Start())
			if n < s.killed {
				time.Sleep(time.Second + time.Duration(n)*50*time.Millisecond)
				_ = cmd.Process.Kill() // unless it has ended
			}
			err := cmd.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.output += out.String()
			if err != nil {
				s.failed++
			}
		})
	}
	all.Wait()
	s.took = time.Since(start)
	s.Logf("%d requests, %d refused, %d lines, %d processes failed, %s",
		len(s.world.Registry.Requests()), s.refused(), s.lines(), s.failed, s.took.Round(time.Second/10))
}

func (s *storm) command(n int) *exec.Cmd {
	cmd := exec.Command("larder", "install", "--cache", filepath.Join(s.dir, "cache"))
	cmd.Dir = s.module(n)
	cmd.Env = append(os.Environ(), s.world.Env()...)
	cmd.Env = append(cmd.Env, "NO_PROXY=", "HOME="+filepath.Join(s.dir, "home"))
	if s.tries > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("TF_REGISTRY_DISCOVERY_RETRY=", s.tries))
	}
	return cmd
}

// refused is how many requests the registry has answered with an error.
func (s *storm) refused() (n int) {
	for _, r := range s.world.Registry.Requests() {
		if r.Status >= 400 {
			n++
		}
	}
	return n
}

// lines is how many lines are about waiting.
func (s *storm) lines() int {
	return strings.Count(s.output, "trying again for up to") + strings.Count(s.output, "waiting up to")
}
