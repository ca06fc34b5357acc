package endpoint

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources/disk"
)

// A Certificate is one in two files.
type Certificate struct {
	cert, key string
	warn      func(error)
	now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	state   string    // of both files, when they were read
	looked  time.Time // when the state was compared last
}

const (
	lookEvery = 5 * time.Second
	mostPEM   = 1 << 20 // in bytes
)

// Load reads a certificate and its key. When a file changes, both are read again; if that fails, warn is called, and the
// old certificate stays in use.
func Load(cert, key string, warn func(error)) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, warn: warn, now: time.Now}
	c.state, c.looked = c.files(), c.now()
	var err error
	c.current, err = c.read()
	return c, err
}

// files returns the state of the files.
func (c *Certificate) files() string {
	text := ""
	for _, path := range []string{c.cert, c.key} {
		f, info, err := disk.OpenFile(path)
		if err != nil {
			text += err.Error()
			continue
		}
		text += fmt.Sprintln(info.Size(), info.ModTime().UnixNano(), disk.Identify(path, info))
		f.Close()
	}
	return text
}

func (c *Certificate) read() (*tls.Certificate, error) {
	cert, err := disk.ReadFile(c.cert, mostPEM)
	if err != nil {
		return nil, err
	}
	key, err := disk.ReadFile(c.key, mostPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	return &pair, nil
}

// Get returns the current certificate, for [tls.Config].
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.looked) >= lookEvery {
		c.looked = now
		if state := c.files(); state != c.state {
			c.state = state
			if read, err := c.read(); err != nil {
				c.warn(fmt.Errorf("the old certificate stays in use: %w", err))
			} else {
				c.current = read
			}
		}
	}
	return c.current, nil
}
