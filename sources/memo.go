package sources

import (
	"context"
	"sync"
)

// A Memo remembers the answers to questions, errors included. Whoever asks a
// question that is being answered waits for that answer. The zero Memo is ready
// to use, and safe for concurrent use.
type Memo[K comparable, V any] struct {
	Max int // answers that are kept, the latest ones; 0 means all

	mu       sync.Mutex
	calls    map[K]*call[V]
	answered []K // in order, if there is a Max
}

type call[V any] struct {
	done      chan struct{} // closed once the rest is set
	value     V
	err       error
	abandoned bool // the asker gave up: this is no answer
}

// Get returns the answer for key, which ask gives if nobody has asked before.
// An ask that fails when ctx is done has given no answer: whoever waits for it
// asks again.
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

// join returns the call for key, and true if the caller must make it.
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
