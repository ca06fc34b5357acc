package sources

import (
	"context"
	"sync"
)

// A Memo records the answers to questions, errors included. Concurrent callers
// with the same key share one call. The zero Memo is ready to use, and safe for
// concurrent use.
type Memo[K comparable, V any] struct {
	Max int // how many answers are recorded, the latest ones; 0 means all

	mu       sync.Mutex
	calls    map[K]*call[V]
	answered []K // in order, if Max is set
}

type call[V any] struct {
	done      chan struct{} // closed once the rest is set
	value     V
	err       error
	abandoned bool // the caller's context was done, so this is not an answer
}

// Get returns the recorded answer for key, or calls ask for it. If ask fails
// and ctx is done, nothing is recorded, and the next waiting caller calls its
// own ask.
func (m *Memo[K, V]) Get(ctx context.Context, key K, ask func() (V, error)) (V, error) {
	for {
		c, mine := m.join(key)
		if mine {
			c.value, c.err = ask()
			c.abandoned = c.err != nil && ctx.Err() != nil
			m.finish(key, c)
			return c.value, c.err
		}
		select {
		case <-c.done:
			if !c.abandoned {
				return c.value, c.err
			}
		case <-ctx.Done():
			var none V
			return none, ctx.Err()
		}
	}
}

// Forget removes the recorded answer for key.
func (m *Memo[K, V]) Forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, key)
}

// join returns the call for key. It returns true if the caller must make the
// call.
func (m *Memo[K, V]) join(key K) (*call[V], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.calls[key]; ok {
		return c, false
	}
	if m.calls == nil {
		m.calls = map[K]*call[V]{}
	}
	c := &call[V]{done: make(chan struct{})}
	m.calls[key] = c
	return c, true
}

func (m *Memo[K, V]) finish(key K, c *call[V]) {
	defer close(c.done)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case c.abandoned:
		delete(m.calls, key)
	case m.Max > 0:
		if m.answered = append(m.answered, key); len(m.answered) > m.Max {
			delete(m.calls, m.answered[0])
			m.answered = m.answered[1:]
		}
	}
}
