package lockfile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/larder-cli/larder/sources"
)

// A place is something in a lock file that a comment can stand by. Parts of a
// provider's block are "{", "version", "constraints", "hashes", each hash, "]"
// and "}"; the file as a whole has a "head" and a "foot".
type place struct {
	provider sources.Provider // zero for the file as a whole
	part     string
}

var head, foot = place{part: "head"}, place{part: "foot"}

// An anchor is where in the text a place was.
type anchor struct {
	place      place
	start, end hcl.Pos
}

func (r *reader) anchor(p place, start, end hcl.Pos) {
	r.anchors = append(r.anchors, anchor{p, start, end})
}

// remarks are the comments of a file, by the place they stand by.
type remarks map[place]*remark

// A remark is what the comments at one place say.
type remark struct {
	before []comment // on lines of their own
	apart  bool      // whether a blank line comes after those
	after  []string  // at the end of the line
}

// A comment is one comment with its marks, but without the end of the line.
type comment struct {
	text  string
	apart bool // whether a blank line comes before it
}

// commentText is a comment's text. Carriage returns are not worth keeping:
// everything else in the file is rewritten with LF.
func commentText(t hclsyntax.Token) string {
	return strings.TrimRight(strings.ReplaceAll(string(t.Bytes), "\r", ""), " \t\n")
}

// attach gives each comment among tokens to the place it stands by: at the end
// of a place's line to that, else to the place that comes next.
func attach(tokens hclsyntax.Tokens, anchors []anchor) remarks {
	slices.SortFunc(anchors, func(a, b anchor) int { return cmp.Compare(a.start.Byte, b.start.Byte) })
	rs := remarks{}
	var waiting []comment // for the next place
	last := -1            // line on which the latest token ended
	next := 0             // anchor
	for _, t := range tokens {
		line := t.Range.Start.Line
		for next < len(anchors) && anchors[next].start.Byte <= t.Range.Start.Byte {
			if next == 0 {
				waiting = rs.keepHead(waiting, line > last+1)
			}
			at := rs.at(anchors[next].place)
			at.before = append(at.before, waiting...)
			at.apart = line > last+1
			waiting = nil
			next++
		}
		switch t.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenEOF:
			continue
		case hclsyntax.TokenComment:
			text := commentText(t)
			_, isHeader := parseHeader(text)
			switch {
			case next == 0 && isHeader:
			case next > 0 && line <= anchors[next-1].end.Line:
				at := rs.at(anchors[next-1].place)
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

// keepHead keeps those of the comments before the first block that stand
// apart from it, and returns the others.
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

// at is the remark at p, made if need be.
func (rs remarks) at(p place) *remark {
	if rs[p] == nil {
		rs[p] = &remark{}
	}
	return rs[p]
}
