package modules

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	maxNesting = 10_000  // of lists and objects, as in encoding/json
	maxScalar  = 1 << 16 // bytes of a number
	maxName    = 64      // bytes of a member's name that can matter
)

// A jsonReader reads JSON of any size with little memory, which a json.Decoder doesn't: it keeps
// each string as a whole. Null counts as an empty list or object.
type jsonReader struct {
	*bufio.Reader
	nesting int
	token   []byte // reused
}

// A member is the name of a member of an object, whose case is ignored as in the engines, and the
// function that reads its value.
type member struct {
	name string
	read func() error
}

// object reads an object with the given members, and skips others.
func (r *jsonReader) object(members ...member) error {
	return r.items('{', func(r *jsonReader, name []byte) error {
		for _, m := range members {
			if bytes.EqualFold(name, []byte(m.name)) {
				return m.read()
			}
		}
		return r.skip()
	})
}

// list calls element to read each element of a list.
func (r *jsonReader) list(element func() error) error {
	return r.items('[', func(*jsonReader, []byte) error { return element() })
}

// skip reads a value.
func (r *jsonReader) skip() error {
	c, err := r.peek()
	switch {
	case err != nil:
		return err
	case c == '{', c == '[':
		return r.items(c, func(r *jsonReader, _ []byte) error { return r.skip() })
	case c == '"':
		_, err = r.text(0)
	default:
		_, err = r.scalar()
	}
	return err
}

// items reads a list or an object, which begins with open. It calls value to read each element,
// or the value of each member with the given name. A long name is nil.
func (r *jsonReader) items(open byte, value func(r *jsonReader, name []byte) error) error {
	c, err := r.peek()
	if err == nil && c == 'n' {
		_, err := r.scalar()
		return err
	}
	if err := r.expect(open); err != nil {
		return err
	}
	if r.nesting++; r.nesting > maxNesting {
		return errors.New("exceeded max depth")
	}
	defer func() { r.nesting-- }()
	end := open + 2 // in ASCII
	if c, err := r.peek(); err == nil && c == end {
		return r.expect(end)
	}
	for {
		var name []byte
		if open == '{' {
			if name, err = r.text(maxName); err != nil {
				return err
			}
			if err := r.expect(':'); err != nil {
				return err
			}
		}
		if err := value(r, name); err != nil {
			return err
		}
		if c, err := r.peek(); err == nil && c != ',' {
			return r.expect(end)
		}
		if err := r.expect(','); err != nil {
			return err
		}
	}
}

// text reads a string. It returns nil if the string has more bytes than given. The result is
// valid until the next token is read.
func (r *jsonReader) text(most int) ([]byte, error) {
	if err := r.expect('"'); err != nil {
		return nil, err
	}
	const none, begun = 0, 5 // values between them count the remaining hexadecimal digits
	escape, size := none, 0
	r.token = append(r.token[:0], '"')
	for {
		c, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		if size++; size <= most+1 { // including the quote at the end
			r.token = append(r.token, c)
		}
		switch {
		case c < ' ', escape == begun && strings.IndexByte(`"\/bfnrtu`, c) < 0, escape > none && escape < begun && !isHex(c):
			return nil, unexpected(c)
		case escape == begun && c != 'u':
			escape = none
		case escape > none:
			escape--
		case c == '\\':
			escape = begun
		case c != '"':
		case size > most+1:
			return nil, nil
		case bytes.IndexByte(r.token, '\\') < 0:
			return r.token[1:size], nil
		default:
			var text string
			err := json.Unmarshal(r.token, &text)
			return []byte(text), err
		}
	}
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// scalar reads a number, true, false or null. The result is valid until the next
// token is read.
func (r *jsonReader) scalar() ([]byte, error) {
	if _, err := r.peek(); err != nil {
		return nil, err
	}
	r.token = r.token[:0]
	for {
		c, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		if c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			if !json.Valid(r.token) {
				return nil, unexpected(c)
			}
			return r.token, r.UnreadByte()
		}
		if r.token = append(r.token, c); len(r.token) > maxScalar {
			return nil, fmt.Errorf("a number has more than %d digits", maxScalar)
		}
	}
}

// peek returns the first byte of the next token without reading the token.
func (r *jsonReader) peek() (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, r.UnreadByte()
		}
	}
}

// expect reads the token c.
func (r *jsonReader) expect(c byte) error {
	got, err := r.peek()
	if err == nil && got != c {
		err = unexpected(got)
	}
	if err != nil {
		return err
	}
	_, err = r.ReadByte()
	return err
}

func unexpected(c byte) error { return fmt.Errorf("invalid character %q", c) }
