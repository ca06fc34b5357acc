package cliconfig

import "strings"

// nearest is the one of known that word was most likely meant to be, whether it
// is misspelt or cut short, and empty if it is like none of them.
func nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", 3 // three slips are another word
	for _, k := range known {
		d := distance(word, k)
		if len(word) > 3 && strings.HasPrefix(k, word) {
			d = min(d, 2)
		}
		if d < least && d <= len(k)/2 {
			best, least = k, d
		}
	}
	return best
}

// distance is how many bytes must be put in, taken out or replaced to make a
// into b, which are short. Long words are far from everything.
func distance(a, b string) int {
	if len(a) > 2*len(b) {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
