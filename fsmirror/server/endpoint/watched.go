package endpoint

import (
	"sync"
	"time"

	"github.com/larder-cli/larder/sources/disk"
)

// A Watched value is read from files, and again when they change. If that fails, the old value stays.
type Watched[T any] struct {
	paths  []string
	read   func() (T, error)
	failed func(error)
	now    func() time.Time

	mu     sync.Mutex
	value  T
	state  string    // of the files, when they were read
	looked time.Time // when the state was compared last
}

const lookEvery = 5 * time.Second

// Watch reads a value from files. Failed is called if reading it again fails.
func Watch[T any](failed func(error), read func() (T, error), paths ...string) (w *Watched[T], err error) {
	w = &Watched[T]{paths: paths, read: read, failed: failed, now: time.Now, looked: time.Now()}
	w.state = w.files()
	w.value, err = read()
	return w, err
}

// Get returns the current value.
func (w *Watched[T]) Get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, state := w.now(), w.state
	if now.Sub(w.looked) >= lookEvery {
		w.looked, w.state = now, w.files()
	}
	if state != w.state {
		if value, err := w.read(); err != nil {
			w.failed(err)
		} else {
			w.value = value
		}
	}
	return w.value
}

// files returns the state of the files.
func (w *Watched[T]) files() (all string) {
	for _, path := range w.paths {
		state, err := disk.PrintTree(path)
		if err != nil {
			state = err.Error()
		}
		all += state + "\n"
	}
	return all
}
