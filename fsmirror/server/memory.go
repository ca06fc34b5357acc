package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/larder-cli/larder/sources"
)

// A memory holds the latest answers of upstream. However many clients ask, upstream gets each question once at a time,
// and again only when the answer is older than the time fresh. If upstream then fails, the old answer is still given.
type memory[K comparable, V any] struct {
	memoryOptions
	ask   func(context.Context, K) (V, error)
	weigh func(V) int // about how many bytes an answer takes

	asking singleflight.Group

	mu     sync.Mutex
	all    map[K]answer[V]
	weight int // of all answers
}

// memoryOptions configure a memory.
type memoryOptions struct {
	fresh time.Duration
	now   func() time.Time
	busy  chan struct{} // limits the questions at a time
	ends  context.Context
}

func newMemory[K comparable, V any](
	opts memoryOptions, weigh func(V) int, ask func(context.Context, K) (V, error),
) *memory[K, V] {
	return &memory[K, V]{memoryOptions: opts, ask: ask, weigh: weigh, all: map[K]answer[V]{}}
}

// An answer is what upstream said.
type answer[V any] struct {
	value    V
	at       time.Time // when upstream gave the value; zero if it never did
	err      error     // why upstream gave no value last time
	failedAt time.Time
	weight   int
}

const (
	mostWeight   = 16 << 20         // bytes of all answers
	leastWeight  = 800              // bytes of an answer, such as that upstream has no such provider
	failedFor    = 5 * time.Second  // how long a failure is an answer, which includes that upstream has no such provider
	staleAfter   = 3 * time.Second  // how long clients wait for a new answer where there is an old one
	mostTime     = 60 * time.Second // for one answer
	mostAtOnce   = 32               // questions
	staleUnknown = -1               // the age of an answer that lacks what upstream would add
)

// get returns the answer, and its age if it is older than it should be, otherwise 0. That upstream has no such thing is
// the zero answer. If the caller has something else to give, it waits for staleAfter at most, and a failure is the zero
// answer with the age staleUnknown.
func (m *memory[K, V]) get(ctx context.Context, key K, hasOther bool) (none V, age time.Duration, err error) {
	a := m.last(key)
	if !m.suffices(a) {
		var late <-chan time.Time
		if hasOther || !a.at.IsZero() {
			late = time.After(staleAfter)
		}
		select {
		case <-m.asking.DoChan(fmt.Sprint(key), func() (any, error) { m.question(key); return nil, nil }):
			a = m.last(key)
		case <-late:
		case <-ctx.Done():
			return none, 0, ctx.Err()
		}
	}
	old := m.now().Sub(a.at)
	switch fresh := !a.at.IsZero() && old < m.fresh; {
	case fresh:
		return a.value, 0, nil
	case errors.Is(a.err, sources.ErrNotFound):
		return none, 0, nil
	case !a.at.IsZero():
		return a.value, max(old, 1), nil
	case hasOther:
		return none, staleUnknown, nil
	}
	return none, 0, ofUpstream(a.err)
}

// suffices reports whether upstream is not asked again.
func (m *memory[K, V]) suffices(a answer[V]) bool {
	now := m.now()
	return !a.at.IsZero() && now.Sub(a.at) < m.fresh || a.err != nil && now.Sub(a.failedAt) < failedFor
}

// last returns the last answer, which is zero if there was none.
func (m *memory[K, V]) last(key K) answer[V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[key]
}

// question asks upstream. It doesn't depend on the client that asked first, because others wait too.
func (m *memory[K, V]) question(key K) {
	if m.suffices(m.last(key)) { // it was answered while the caller looked
		return
	}
	ctx, cancel := context.WithTimeout(m.ends, mostTime)
	defer cancel()
	var value V
	var err error
	select {
	case m.busy <- struct{}{}:
		value, err = m.ask(ctx, key)
		<-m.busy
	case <-ctx.Done():
		err = fmt.Errorf("upstream: %w", ErrBusy)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.all[key]
	if err == nil {
		a.value, a.at, a.err = value, m.now(), nil
	} else {
		a.err, a.failedAt = err, m.now()
	}
	m.weight -= a.weight
	a.weight = leastWeight + m.weigh(a.value)
	m.weight += a.weight
	for other, b := range m.all { // any other ones
		if m.weight <= mostWeight {
			break
		}
		if other != key {
			m.weight -= b.weight
			delete(m.all, other)
		}
	}
	m.all[key] = a
}

// size returns how many answers are kept.
func (m *memory[K, V]) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}
