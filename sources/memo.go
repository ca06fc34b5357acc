package sources

import (
	"context"
	"sync"
)

// A Memo records the answers to questions, errors included. Concurrent callers
// with the same key share one call. The zero Memo is ready to use, and safe for
// concurrent use.
type Memo[K comparable, V any] struct {
	Max   int         // how much the recorded answers weigh together; the oldest are forgotten; 0 means all
	Weigh func(V) int // the weight of an answer, such as its size in bytes; nil means 1

	mu       sync.Mutex
	calls    map[K]*call[V]
	answered []keyedCall[K, V] // in order, if Max is set
	weight   int               // of all answers, if Max is set
}

// A keyedCall is a call with its key.
type keyedCall[K comparable, V any] struct {
	key K
	*call[V]
}

type call[V any] struct {
	done      chan struct{} // closed once the rest is set
	value     V
	err       error
	abandoned bool // the caller's context was done, so this is not an answer
	weight    int  // positive as long as the answer counts
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

// Once is [Memo.Get] for an answer that can't be abandoned.
func (m *Memo[K, V]) Once(key K, ask func() (V, error)) (V, error) {
	return m.Get(context.Background(), key, ask)
}

// Clear removes all recorded answers.
func (m *Memo[K, V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls, m.answered, m.weight = nil, nil, 0
}

// Forget removes the recorded answer for key.
func (m *Memo[K, V]) Forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.calls[key]; ok {
		m.forget(key, c)
	}
}

// forget removes a call, if it is still that for key. The caller holds the lock.
func (m *Memo[K, V]) forget(key K, c *call[V]) {
	m.weight -= c.weight
	if c.weight = 0; m.calls[key] == c {
		delete(m.calls, key)
	}
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
		m.forget(key, c)
	case m.Max > 0 && m.calls[key] == c:
		if c.weight = 1; m.Weigh != nil {
			c.weight = max(1, m.Weigh(c.value))
		}
		m.weight += c.weight
		m.answered = append(m.answered, keyedCall[K, V]{key, c})
		for len(m.answered) > 0 && (m.weight > m.Max || m.answered[0].weight == 0) {
			m.forget(m.answered[0].key, m.answered[0].call)
			m.answered[0] = keyedCall[K, V]{} // the array still has it
			m.answered = m.answered[1:]
		}
	}
}
