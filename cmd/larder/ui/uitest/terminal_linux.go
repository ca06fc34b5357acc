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
	lines         [][]cell // including those that have scrolled off
	wrapped       []bool   // whether a line continues in the next
	top           int      // index of the first line on the screen
	row           int      // of the cursor, counted from the first of lines
	Column        int      // of the cursor
	NoWrap        bool     // too wide lines are cut
	escape        string   // incomplete sequence
	paint         string   // of the next letters
}

// A cell is a letter with its paint, as a word; plain ones have none.
type cell struct {
	letter rune
	paint  string
}

// paints are the words for paints in [picture.Painted], by the parameters of their sequences.
var paints = map[string]string{"0": "", "1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow"}

// text returns a line without its paints.
func text(line []cell) string {
	var b strings.Builder
	for _, c := range line {
		b.WriteRune(c.letter)
	}
	return b.String()
}

// painted returns a line with its paints as words, as in {green}+{/}.
func painted(line []cell) string {
	var b strings.Builder
	for i, c := range line {
		if c.paint != "" && (i == 0 || line[i-1].paint != c.paint) {
			b.WriteString("{" + c.paint + "}")
		}
		b.WriteRune(c.letter)
		if c.paint != "" && (i == len(line)-1 || line[i+1].paint != c.paint) {
			b.WriteString("{/}")
		}
	}
	return b.String()
}

// Painted returns all lines that were ever visible, wrapped, with the paints as words.
func (p *picture) Painted() string {
	var b strings.Builder
	for _, line := range p.lines {
		b.WriteString(strings.TrimRight(painted(line), " ") + "\n")
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
	if p.Column == p.width {
		if p.NoWrap {
			p.Column--
		} else {
			p.down(true)
			p.Column = 0
		}
	}
	p.reach()
	for len(p.lines[p.row]) <= p.Column {
		p.lines[p.row] = append(p.lines[p.row], cell{letter: ' '})
	}
	p.lines[p.row][p.Column] = cell{r, p.paint}
	p.Column++
}

func (p *picture) down(wrap bool) {
	p.reach()
	p.wrapped[p.row] = wrap
	p.row++
	p.top = max(p.top, p.row-p.height+1)
	p.reach()
}

// reach adds lines up to the one with the cursor.
func (p *picture) reach() {
	for len(p.lines) <= p.row {
		p.lines, p.wrapped = append(p.lines, nil), append(p.wrapped, false)
	}
}

func (p *picture) command(escape string) {
	var n int
	switch {
	case escape == "\x1b[J", escape == "\x1b[K":
		p.reach()
		p.lines[p.row] = p.lines[p.row][:min(len(p.lines[p.row]), p.Column)]
		if escape == "\x1b[J" {
			p.lines, p.wrapped = p.lines[:p.row+1], p.wrapped[:p.row+1]
			p.wrapped[p.row] = false
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
	if narrower && !reflow {
		for i, line := range p.lines {
			p.lines[i] = line[:min(len(line), width)]
		}
	}
	p.Column = min(p.Column, width)
	p.reach()
	// Lines below the cursor are removed first, then lines at the top.
	if below := p.top + height; below < len(p.lines) {
		below = max(below, p.row+1)
		p.lines, p.wrapped = p.lines[:below], p.wrapped[:below]
	}
	p.top = max(p.top, p.row-height+1)
}

// reflow wraps lines again, for another width. The cursor keeps its place in the text.
func (p *picture) reflow() {
	var lines [][]cell
	var wrapped []bool
	row := 0
	for i := 0; i < len(p.lines); i++ {
		if i == p.row {
			row = len(lines)
		}
		whole := slices.Clone(p.lines[i])
		for p.wrapped[i] && i+1 < len(p.lines) {
			i++
			whole = append(whole, p.lines[i]...)
		}
		for len(whole) > p.width {
			lines, wrapped = append(lines, slices.Clone(whole[:p.width])), append(wrapped, true)
			whole = whole[p.width:]
		}
		lines, wrapped = append(lines, whole), append(wrapped, false)
	}
	p.top += len(lines) - len(p.lines)
	p.lines, p.wrapped, p.row = lines, wrapped, row
	p.top = min(max(0, p.top), row)
}

// Text returns all lines that were ever visible, without the breaks of wrapped lines.
func (p *picture) Text() string {
	var b strings.Builder
	for i, line := range p.lines {
		b.WriteString(text(line))
		if !p.wrapped[i] {
			b.WriteString("\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// Seen returns the current screen.
func (p *picture) Seen() []string {
	var seen []string
	for _, line := range p.lines[p.top:min(len(p.lines), p.top+p.height)] {
		seen = append(seen, text(line))
	}
	return seen
}

// Wide returns the lines that the terminal wrapped.
func (p *picture) Wide() []string {
	var wide []string
	for _, line := range strings.Split(p.Text(), "\n") {
		if len([]rune(line)) > p.width {
			wide = append(wide, line)
		}
	}
	return wide
}
