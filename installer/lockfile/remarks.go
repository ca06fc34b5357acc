package lockfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
)

// A place is an element of a lock file to which a comment can belong. Parts of a
// provider's block are "{", "version", "constraints", "hashes", each hash, "]" and
// "}". The file as a whole has a "top", which precedes the header, a "head" and a
// "foot".
type place struct {
	provider sources.Provider // zero for the file as a whole
	part     string
}

var top, head, foot = place{part: "top"}, place{part: "head"}, place{part: "foot"}

// A span is the position of a place in the text.
type span struct{ start, end hcl.Pos }

// remarks are the comments of a file, by place.
type remarks map[place]*remark

// A remark holds the comments at one place.
type remark struct {
	before []comment // on separate lines
	apart  bool      // whether a blank line follows those
	after  []string  // at the end of the line
}

// A comment is a comment including its delimiters, without the end of the line.
type comment struct {
	text  string
	apart bool // whether a blank line precedes it
}

// commentText returns a comment's text. It removes carriage returns, because the rest
// of the file is rewritten with LF.
func commentText(comment []byte) string {
	return strings.TrimRight(strings.ReplaceAll(string(comment), "\r", ""), " \t\n")
}

// comments assigns each comment in the file to a place: a comment at the end of a place's line to
// that place, other comments to the next place.
func (f *File) comments() remarks {
	places := slices.SortedFunc(maps.Keys(f.places), func(a, b place) int {
		return cmp.Compare(f.places[a].start.Byte, f.places[b].start.Byte)
	})
	rs := remarks{}
	var waiting []comment // for the next place
	last := -1            // line on which the latest token ended
	next := 0             // index of the next place
	for _, t := range hclfile.Lex(f.text) {
		line := t.Range.Start.Line
		for next < len(places) && f.places[places[next]].start.Byte <= t.Range.Start.Byte {
			if next == 0 {
				waiting = rs.keepHead(waiting, line > last+1)
			}
			at := rs.at(places[next])
			at.before = append(at.before, waiting...)
			at.apart = line > last+1
			waiting = nil
			next++
		}
		switch t.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenEOF:
			continue
		case hclsyntax.TokenComment:
			text := commentText(t.Bytes)
			_, isHeader := parseHeader(text)
			switch {
			case next == 0 && isHeader:
				if rs[top] == nil {
					rs[top] = &remark{before: waiting, apart: line > last+1}
					waiting = nil
				}
			case next > 0 && line <= f.places[places[next-1]].end.Line:
				at := rs.at(places[next-1])
				at.after = append(at.after, text)
			default:
				waiting = append(waiting, comment{text, line > last+1})
			}
			last = line + strings.Count(text, "\n")
		default:
			last = t.Range.End.Line
		}
	}
	if next == 0 {
		rs.at(head).before = waiting
	} else {
		rs.at(foot).before = waiting
	}
	return rs
}

// keepHead keeps the comments before the first block that a blank line separates from
// it, and returns the others.
func (rs remarks) keepHead(comments []comment, apart bool) []comment {
	n := len(comments)
	if !apart {
		for n--; n > 0 && !comments[n].apart; n-- {
		}
	}
	n = max(n, 0)
	rs.at(head).before = comments[:n]
	return comments[n:]
}

// at returns the remark at p, and creates it if there is none.
func (rs remarks) at(p place) *remark {
	if rs[p] == nil {
		rs[p] = &remark{}
	}
	return rs[p]
}
