package registry

var ErrNoRegistry = errNoRegistry
