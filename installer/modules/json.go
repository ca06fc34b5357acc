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
)

// A jsonReader reads JSON of any size with little memory. Null counts as an empty
// list or object.
type jsonReader struct {
	*bufio.Reader
	nesting int
	token   []byte // reused
}

// object calls member for each member of an object. Member reads the value. Long
// names are replaced by "".
func (r *jsonReader) object(member func(name string) error) error {
	return r.items("{}", func(r *jsonReader) error {
		name, err := r.name(64)
		if err != nil {
			return err
		}
		return member(name)
	})
}

// list calls element for each element of a list. Element reads the value.
func (r *jsonReader) list(element func(*jsonReader) error) error { return r.items("[]", element) }

// skip reads a value.
func (r *jsonReader) skip() error {
	switch c, err := r.peek(); {
	case err != nil:
		return err
	case c == '{':
		return r.items("{}", (*jsonReader).skipMember)
	case c == '[':
		return r.items("[]", (*jsonReader).skip)
	case c == '"':
		_, _, err := r.text(0)
		return err
	}
	_, err := r.scalar()
	return err
}

func (r *jsonReader) skipMember() error {
	if _, err := r.name(0); err != nil {
		return err
	}
	return r.skip()
}

// items reads a list or an object.
func (r *jsonReader) items(brackets string, item func(*jsonReader) error) error {
	if c, err := r.peek(); err == nil && c == 'n' {
		_, err := r.scalar()
		return err
	}
	if err := r.expect(brackets[0]); err != nil {
		return err
	}
	if r.nesting++; r.nesting > maxNesting {
		return errors.New("exceeded max depth")
	}
	defer func() { r.nesting-- }()
	if c, err := r.peek(); err == nil && c == brackets[1] {
		return r.expect(c)
	}
	for {
		if err := item(r); err != nil {
			return err
		}
		if c, err := r.peek(); err == nil && c != ',' {
			return r.expect(brackets[1])
		}
		if err := r.expect(','); err != nil {
			return err
		}
	}
}

// name reads the name of a member and the colon after it.
func (r *jsonReader) name(most int) (string, error) {
	name, _, err := r.text(most)
	if err != nil {
		return "", err
	}
	return name, r.expect(':')
}

// text reads a string. It returns the string if it has at most the given number of
// bytes.
func (r *jsonReader) text(most int) (s string, short bool, err error) {
	if err := r.expect('"'); err != nil {
		return "", false, err
	}
	const none, begun = 0, 5 // values between them count the remaining hexadecimal digits
	escape, size := none, 0
	r.token = append(r.token[:0], '"')
	for {
		c, err := r.ReadByte()
		if err != nil {
			return "", false, err
		}
		if size++; size <= most+1 { // including the quote at the end
			r.token = append(r.token, c)
		}
		switch {
		case c < ' ', escape == begun && strings.IndexByte(`"\/bfnrtu`, c) < 0, escape > none && escape < begun && !isHex(c):
			return "", false, unexpected(c)
		case escape == begun && c != 'u':
			escape = none
		case escape > none:
			escape--
		case c == '\\':
			escape = begun
		case c != '"':
		case size > most+1:
			return "", false, nil
		case bytes.IndexByte(r.token, '\\') < 0:
			return string(r.token[1:size]), true, nil
		default:
			return s, true, json.Unmarshal(r.token, &s)
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
