package main

import (
	"sync"
)

// A memo makes each value once, also if many ask for it at once, and remembers
// it or why it could not be made.
type memo[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]func() (V, error)
}

// get is the value of a key. An error is kept like a value: a configuration that cannot
// be read is reported once and not tried again by each root module.
func (m *memo[K, V]) get(key K, produce func() (V, error)) (V, error) {
	m.mu.Lock()
	if m.made == nil {
		m.made = map[K]func() (V, error){}
	}
	if m.made[key] == nil {
		m.made[key] = sync.OnceValues(produce)
	}
	once := m.made[key]
	m.mu.Unlock()
	return once()
}
