package disk

import (
	"errors"
	"time"
)

// WithoutExchange simulates a system that cannot exchange two names.
func WithoutExchange() (restore func()) {
	was := swap
	swap = func(*Dir, string, *Dir, string) error { return errors.ErrUnsupported }
	return func() { swap = was }
}

// Occupy is the second step of [Dir.Scratch], for a directory that exists.
func (d *Dir) Occupy(name string) (*Scratch, error) { return d.occupy(name) }

// FailRenames makes every rename fail for which allowed returns an error.
func FailRenames(allowed func(from *Dir, name string, to *Dir, newName string) error) (restore func()) {
	was := move
	move = func(from *Dir, name string, to *Dir, newName string) error {
		if err := allowed(from, name, to, newName); err != nil {
			return err
		}
		return was(from, name, to, newName)
	}
	return func() { move = was }
}

// WithPatience sets how long a file is waited for that another program has open.
func WithPatience(d time.Duration) (restore func()) {
	was := patience
	patience = d
	return func() { patience = was }
}
