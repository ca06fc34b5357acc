package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A memory holds the latest answers of upstream. However many clients ask, upstream gets each question once at a time,
// and again only when the answer is older than the time fresh. If upstream then fails, the old answer is still given.
type memory[K comparable, V any] struct {
	ask   func(context.Context, K) (V, error)
	fresh time.Duration
	now   func() time.Time
	busy  chan struct{} // limits the questions at a time
	ends  context.Context

	weigh func(V) int // bytes of an answer; nil means none

	mu     sync.Mutex
	all    map[K]*answer[V]
	weight int // bytes of all answers
}

// An answer is what upstream said.
type answer[V any] struct {
	value    V
	at       time.Time // when upstream gave the value; zero if it never did
	err      error     // why upstream gave no value last time
	failedAt time.Time
	asking   chan struct{} // closed when the current question is answered; nil if there is none
}

const (
	mostAnswers  = 20_000           // that are kept
	mostWeight   = 16 << 20         // bytes of all of them
	failedFor    = 5 * time.Second  // how long a failure is an answer, which includes that upstream has no such provider
	staleAfter   = 3 * time.Second  // how long clients wait for a new answer where there is an old one
	mostTime     = 60 * time.Second // for one answer
	mostAtOnce   = 32               // questions
	staleUnknown = -1               // the age of an answer that lacks what upstream would add
)

// errLate is the error of an answer that the caller doesn't wait for any more.
var errLate = errors.New("upstream has not answered yet")

// get returns the answer, and its age if it is older than it should be, otherwise 0. If the caller has something else to
// give, it waits for staleAfter at most, and the error is then errLate.
func (m *memory[K, V]) get(ctx context.Context, key K, hasOther bool) (value V, age time.Duration, err error) {
	m.mu.Lock()
	a := m.all[key]
	if a == nil {
		a = &answer[V]{}
		m.add(key, a)
	}
	now := m.now()
	switch {
	case !a.at.IsZero() && now.Sub(a.at) < m.fresh:
		defer m.mu.Unlock()
		return a.value, 0, nil
	case a.err != nil && now.Sub(a.failedAt) < failedFor:
		defer m.mu.Unlock()
		return a.last(now)
	case a.asking == nil:
		a.asking = make(chan struct{})
		go m.question(key, a)
	}
	asking, has := a.asking, !a.at.IsZero()
	m.mu.Unlock()
	var late <-chan time.Time
	if has || hasOther {
		timer := time.NewTimer(staleAfter)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-asking:
	case <-late:
	case <-ctx.Done():
		return value, 0, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now = m.now(); !a.at.IsZero() && now.Sub(a.at) < m.fresh {
		return a.value, 0, nil
	}
	if a.at.IsZero() && a.asking == asking {
		return value, 0, errLate
	}
	return a.last(now)
}

// last returns the old answer if there is one, otherwise the error. The caller holds the lock.
func (a *answer[V]) last(now time.Time) (V, time.Duration, error) {
	if a.at.IsZero() || errors.Is(a.err, sources.ErrNotFound) {
		var none V
		return none, 0, a.err
	}
	return a.value, max(now.Sub(a.at), 1), nil
}

// question asks upstream. It doesn't depend on the client that asked first, because others wait too.
func (m *memory[K, V]) question(key K, a *answer[V]) {
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
	if err == nil {
		m.weight += m.of(value) - m.of(a.value)
		a.value, a.at, a.err = value, m.now(), nil
		m.lighten()
	} else {
		a.err, a.failedAt = err, m.now()
	}
	close(a.asking)
	a.asking = nil
}

// add adds an answer, in place of any other one if there are too many. The caller holds the lock.
func (m *memory[K, V]) add(key K, a *answer[V]) {
	if m.all == nil {
		m.all = map[K]*answer[V]{}
	}
	if len(m.all) >= mostAnswers {
		for other, b := range m.all {
			if b.asking == nil {
				m.forget(other)
				break
			}
		}
	}
	m.all[key] = a
}

// lighten forgets answers until they aren't too heavy together, but none that is being asked for, so not the one that
// has just been given. The caller holds the lock.
func (m *memory[K, V]) lighten() {
	for key, a := range m.all {
		if m.weight <= mostWeight {
			return
		}
		if a.asking == nil {
			m.forget(key)
		}
	}
}

// forget forgets an answer. The caller holds the lock.
func (m *memory[K, V]) forget(key K) {
	m.weight -= m.of(m.all[key].value)
	delete(m.all, key)
}

// of returns the weight of a value.
func (m *memory[K, V]) of(value V) int {
	if m.weigh == nil {
		return 0
	}
	return m.weigh(value)
}

// lastAnswer returns when upstream answered last, and whether it has failed since. The time is zero if it never answered.
func (m *memory[K, V]) lastAnswer(key K) (at time.Time, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.all[key]; a != nil {
		return a.at, a.err != nil && !errors.Is(a.err, sources.ErrNotFound)
	}
	return at, false
}

// size returns how many answers are kept.
func (m *memory[K, V]) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}
