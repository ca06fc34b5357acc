package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_000_000, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }
func newMemory(t *testing.T, ask func(context.Context, string) (string, error)) (*memory[string, string], *clock) {
	t.Helper()
	c := &clock{}
	weigh := func(v string) int { return len(v) }
	busy := make(chan struct{}, 4)
	return &memory[string, string]{ask: ask, weigh: weigh, fresh: time.Minute, now: c.now, busy: busy, ends: t.Context()}, c
}

// gets checks what a memory answers about "a" to a client that is in a hurry or not.
func gets(t *testing.T, m *memory[string, string], hurry bool, want string, wantAge time.Duration, wantErr error) {
	t.Helper()
	v, age, err := m.get(t.Context(), "a", hurry)
	sourcetest.Expect(t, v == want && age == wantAge && errors.Is(err, wantErr), "got %q, %s, %v", v, age, err)
}

func TestMemoryAsksOnce(t *testing.T) {
	var asked atomic.Int64
	m, c := newMemory(t, func(context.Context, string) (string, error) {
		time.Sleep(10 * time.Millisecond)
		return strconv.FormatInt(asked.Add(1), 10), nil
	})
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() { gets(t, m, false, "1", 0, nil) })
	}
	group.Wait()
	c.advance(time.Minute)
	gets(t, m, false, "2", 0, nil)
}

func TestMemoryKeepsOldAnswers(t *testing.T) {
	var failure atomic.Pointer[error]
	m, c := newMemory(t, func(context.Context, string) (string, error) {
		if err := failure.Load(); err != nil {
			return "", *err
		}
		return "answer", nil
	})
	fail := func(err error) { failure.Store(&err) }
	down := errors.New("down")

	fail(down)
	gets(t, m, false, "", 0, down)
	failure.Store(nil)
	gets(t, m, false, "", 0, down) // it is not asked again at once
	c.advance(failedFor)
	gets(t, m, false, "answer", 0, nil)
	c.advance(time.Hour)
	fail(down)
	gets(t, m, false, "answer", time.Hour, nil)
	fail(sources.ErrNotFound)
	c.advance(failedFor)
	gets(t, m, false, "", 0, sources.ErrNotFound) // upstream says that there is none any more
	failure.Store(nil)
	c.advance(failedFor)
	gets(t, m, false, "answer", 0, nil)
}

// A client that gives up doesn't end the question of the others.
func TestMemoryClientsGiveUp(t *testing.T) {
	release := make(chan struct{})
	m, _ := newMemory(t, func(ctx context.Context, _ string) (string, error) {
		select {
		case <-release:
			return "answer", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, _, err := m.get(ctx, "a", false)
		gone <- err
	}()
	time.Sleep(5 * time.Millisecond)
	cancel()
	sourcetest.ErrorIs(t, <-gone, context.Canceled)
	close(release)
	gets(t, m, false, "answer", 0, nil)
}

// A client for which there is something else waits only a while. That nothing came is no answer.
func TestMemoryIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan string)
		m, c := newMemory(t, func(context.Context, string) (string, error) { return <-answers, nil })
		gets(t, m, true, "", 0, errLate)
		answers <- "first"
		gets(t, m, true, "first", 0, nil)
		c.advance(time.Minute)
		gets(t, m, false, "first", time.Minute, nil)
		answers <- "second"
	})
}

// Names that upstream doesn't have take bounded memory.
func TestMemoryIsBounded(t *testing.T) {
	m, _ := newMemory(t, func(context.Context, string) (string, error) { return "", sources.ErrNotFound })
	const most = mostWeight / leastWeight
	for i := range most + 100 {
		_, _, _ = m.get(t.Context(), strconv.Itoa(i), false)
	}
	sourcetest.Expect(t, m.size() <= most, "%d answers", m.size())
}

// Large answers take bounded memory, too, and the latest one stays. A renewed answer counts once.
func TestMemoryForgetsLargeAnswers(t *testing.T) {
	size := mostWeight/16 - leastWeight
	m, c := newMemory(t, func(context.Context, string) (string, error) { return strings.Repeat("a", size), nil })
	for i := range 20 {
		_, _, _ = m.get(t.Context(), strconv.Itoa(i), false)
		c.advance(time.Minute)
	}
	v, _, err := m.get(t.Context(), "19", false)
	sourcetest.Expect(t, len(v) == size && err == nil, "%d bytes, %v", len(v), err)
	sourcetest.Expect(t, len(m.all) == 16 && m.weight == mostWeight, "%d answers weigh %d", len(m.all), m.weight)
	size = mostWeight + 1
	_, _, _ = m.get(t.Context(), "larger than all may be", false)
	sourcetest.Expect(t, len(m.all) == 1 && m.weight == size+leastWeight, "%d answers weigh %d", len(m.all), m.weight)
}

// Names without a document take no memory.
func TestBodiesOfNothing(t *testing.T) {
	b := newBodies(time.Now)
	for range 2 { // it is looked for again
		asked := false
		_, err := b.get(t.Context(), "a", func(context.Context) (any, time.Duration, error) {
			asked = true
			return nil, 0, sources.ErrNotFound
		})
		sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound) && asked, "got %v, asked %v", err, asked)
	}
}

// A document is made again after a second, and earlier if many others were made.
func TestBodiesAreBounded(t *testing.T) {
	now, made := time.Now().Truncate(bodyFor), 0
	b := newBodies(func() time.Time { return now })
	get := func(name string) {
		one, err := b.get(t.Context(), name, func(context.Context) (any, time.Duration, error) {
			made++
			return strings.Repeat("a", mostOfAll/4), 0, nil
		})
		sourcetest.Require(t, err == nil && len(one.text) >= mostOfAll/4, "%v", err)
	}
	for _, c := range []struct {
		name string
		wait time.Duration
		made int
	}{{"a", 0, 1}, {"a", bodyFor - 1, 1}, {"a", 1, 2}, {"b", 0, 3}, {"c", 0, 4}, {"d", 0, 5}, {"a", 0, 6}, {"d", 0, 6}} {
		now = now.Add(c.wait)
		get(c.name)
		sourcetest.Equal(t, made, c.made, c.name)
	}
}

// Lists of long versions take bounded memory.
func TestMemoryOfVersions(t *testing.T) {
	v, err := sources.ParseVersion("1.0.0-" + strings.Repeat("a", 240))
	if err != nil || sizeOf([]sources.Version{v, v}) < 2*250 {
		t.Error(err, sizeOf([]sources.Version{v, v}))
	}
	var many Offer
	many.Archives = map[sources.Platform][]sources.Hash{{}: make([]sources.Hash, 100)}
	if many.size() < 100*sha256.Size*2 {
		t.Error(many.size())
	}
}
