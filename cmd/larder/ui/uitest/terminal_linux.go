// Package uitest contains a terminal for tests. It shows the output of programs as users see it:
// scrolled, wrapped and cut.
package uitest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A Terminal is a pseudo-terminal with a picture of its screen.
type Terminal struct {
	TTY *os.File     // for programs
	Raw bytes.Buffer // all output that was read

	t      *testing.T
	master *os.File
	bytes  chan []byte
	ahead  string // output after what Until has read
	picture
}

// New creates a terminal with a number of columns and lines.
func New(t *testing.T, width, height int) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	w := &Terminal{t: t, master: master, TTY: tty, bytes: make(chan []byte)}
	w.Resize(width, height, false)
	t.Cleanup(func() {
		tty.Close()
		master.Close()
	})
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Read starts to read the output.
func (w *Terminal) Read() {
	go func() {
		for {
			p := make([]byte, 4096)
			n, err := w.master.Read(p)
			if err != nil {
				return
			}
			w.bytes <- p[:n]
		}
	}()
}

// Type types a text.
func (w *Terminal) Type(text string) {
	w.t.Helper()
	_, err := w.master.WriteString(text)
	must(w.t, err)
}

// Until reads output up to a text.
func (w *Terminal) Until(text string) {
	w.t.Helper()
	for {
		for w.ahead == "" {
			select {
			case p := <-w.bytes:
				w.ahead = string(p) // tests write no partial letters
			case <-time.After(20 * time.Second):
				w.t.Fatalf("%q never came; there is\n%s", text, strings.Join(w.Seen(), "\n"))
			}
		}
		r, size := utf8.DecodeRuneInString(w.ahead)
		w.Raw.WriteString(w.ahead[:size])
		w.letter(r)
		w.ahead = w.ahead[size:]
		if bytes.HasSuffix(w.Raw.Bytes(), []byte(text)) {
			return
		}
	}
}

// Settle reads all output so far.
func (w *Terminal) Settle() {
	w.t.Helper()
	fmt.Fprint(w.TTY, "\x00")
	w.Until("\x00")
}

// Resize changes the size. Terminals with reflow wrap lines that have become too wide, others
// cut them.
func (w *Terminal) Resize(width, height int, reflow bool) {
	w.t.Helper()
	size := &unix.Winsize{Col: uint16(width), Row: uint16(height)}
	must(w.t, unix.IoctlSetWinsize(int(w.master.Fd()), unix.TIOCSWINSZ, size))
	w.picture.resize(width, height, reflow)
}

// A picture is the screen of a terminal, and the lines that have scrolled off its top.
type picture struct {
	width, height int
	lines         []line // including those that have scrolled off
	top           int    // index of the first line on the screen
	row           int    // of the cursor, counted from the first of lines
	Column        int    // of the cursor
	NoWrap        bool   // too wide lines are cut
	escape        string // incomplete sequence
	paint         string // of the next letters
}

// A line is a line of the screen.
type line struct {
	cells []cell
	wraps bool // it continues in the next line
}

// A cell is a letter with its paint, as a word; plain ones have none.
type cell struct {
	letter rune
	paint  string
}

// paints are the words for paints in [picture.Painted], by the parameters of their sequences.
var paints = map[string]string{"0": "", "1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow"}

// text returns a line without its paints.
func (l line) text() string {
	var b strings.Builder
	for _, c := range l.cells {
		b.WriteRune(c.letter)
	}
	return b.String()
}

// Painted returns all lines that were ever visible, wrapped, with the paints as words, as in {green}+{/}.
func (p *picture) Painted() string {
	var b strings.Builder
	for _, l := range p.lines {
		text, last := "", ""
		paint := func(next string) {
			if last != "" && last != next {
				text += "{/}"
			}
			if next != "" && last != next {
				text += "{" + next + "}"
			}
			last = next
		}
		for _, c := range l.cells {
			paint(c.paint)
			text += string(c.letter)
		}
		paint("")
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (p *picture) letter(r rune) {
	switch {
	case p.escape != "":
		p.escape += string(r)
		if len(p.escape) > 2 && (r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			p.command(p.escape)
			p.escape = ""
		}
	case r == '\x1b':
		p.escape = "\x1b"
	case r == '\r':
		p.Column = 0
	case r == '\n':
		p.down(false)
	case r >= ' ':
		p.put(r)
	}
}

func (p *picture) put(r rune) {
	if p.Column == p.width && p.NoWrap {
		p.Column--
	} else if p.Column == p.width {
		p.down(true)
		p.Column = 0
	}
	l := p.here()
	for len(l.cells) <= p.Column {
		l.cells = append(l.cells, cell{letter: ' '})
	}
	l.cells[p.Column] = cell{r, p.paint}
	p.Column++
}

func (p *picture) down(wrap bool) {
	p.here().wraps = wrap
	p.row++
	p.top = max(p.top, p.row-p.height+1)
	p.here()
}

// here returns the line with the cursor.
func (p *picture) here() *line {
	for len(p.lines) <= p.row {
		p.lines = append(p.lines, line{})
	}
	return &p.lines[p.row]
}

func (p *picture) command(escape string) {
	var n int
	switch {
	case escape == "\x1b[J", escape == "\x1b[K":
		l := p.here()
		l.cells = l.cells[:min(len(l.cells), p.Column)]
		if escape == "\x1b[J" {
			l.wraps, p.lines = false, p.lines[:p.row+1]
		}
	case escape == "\x1b[C":
		p.Column = min(p.Column+1, max(0, p.width-1))
	case escape == "\x1b[?7l", escape == "\x1b[?7h":
		p.NoWrap = strings.HasSuffix(escape, "l")
	case strings.HasSuffix(escape, "m"):
		paint, known := paints[strings.TrimSuffix(strings.TrimPrefix(escape, "\x1b["), "m")]
		if p.paint = paint; !known {
			p.put('?')
		}
	case strings.HasSuffix(escape, "A"):
		if _, err := fmt.Sscanf(escape, "\x1b[%dA", &n); err != nil {
			p.put('?')
		}
		p.row = max(p.top, p.row-n)
	default:
		p.put('?') // visible error
	}
}

func (p *picture) resize(width, height int, reflow bool) {
	narrower := width < p.width
	p.width, p.height = width, height
	if narrower && reflow {
		p.reflow()
	}
	for i, l := range p.lines {
		p.lines[i].cells = l.cells[:min(len(l.cells), width)]
	}
	p.Column = min(p.Column, width)
	p.here()
	// Lines below the cursor are removed first, then lines at the top.
	p.lines = p.lines[:min(len(p.lines), max(p.top+height, p.row+1))]
	p.top = max(p.top, p.row-height+1)
}

// reflow wraps lines again, for another width. The cursor keeps its place in the text.
func (p *picture) reflow() {
	var lines []line
	row := 0
	for i := 0; i < len(p.lines); i++ {
		if i == p.row {
			row = len(lines)
		}
		whole := slices.Clone(p.lines[i].cells)
		for p.lines[i].wraps && i+1 < len(p.lines) {
			i++
			whole = append(whole, p.lines[i].cells...)
		}
		for len(whole) > p.width {
			lines = append(lines, line{slices.Clone(whole[:p.width]), true})
			whole = whole[p.width:]
		}
		lines = append(lines, line{cells: whole})
	}
	p.top += len(lines) - len(p.lines)
	p.lines, p.row = lines, row
	p.top = min(max(0, p.top), row)
}

// Text returns all lines that were ever visible, without the breaks of wrapped lines.
func (p *picture) Text() string {
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(l.text())
		if !l.wraps {
			b.WriteString("\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// Seen returns the current screen.
func (p *picture) Seen() (seen []string) {
	for _, l := range p.lines[p.top:min(len(p.lines), p.top+p.height)] {
		seen = append(seen, l.text())
	}
	return seen
}

// Wide returns the lines that the terminal wrapped.
func (p *picture) Wide() []string {
	fits := func(line string) bool { return utf8.RuneCountInString(line) <= p.width }
	return slices.DeleteFunc(strings.Split(p.Text(), "\n"), fits)
}
