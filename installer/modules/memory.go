package modules

import (
	"encoding/json"

	"golang.org/x/sync/semaphore"
)

const (
	// maxMemory limits the memory in bytes for all files that are parsed at the same
	// time, by an estimate. Configurations of some megabytes take a third of it.
	maxMemory = 768 << 20

	// The parsers take at most this memory in bytes for each token, and for each
	// invalid character, which is an error of its own. Measured with repeated tokens.
	perToken = 280
	perError = 1000
)

// memory is what files may take in which parsing has begun.
var memory = semaphore.NewWeighted(maxMemory)

// nativeMemory returns the memory in bytes that parsing src may take. Tokens are words and
// most other characters. Inside of strings and comments this counts too many.
func nativeMemory(src []byte) (total int64) {
	word := false
	for _, b := range src {
		before := word
		word = 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '_'
		switch {
		case word && before, b == ' ', b == '\t', b == '\r':
		case word, token[b]:
			total += perToken
		default:
			total += perError
		}
	}
	return total
}

// token marks the characters that can be tokens outside of strings, besides words.
var token = func() (is [256]bool) {
	for _, b := range []byte("\n\"{}[](),.=:?+-*/%!<>#") {
		is[b] = true
	}
	return is
}()

// jsonMemory is nativeMemory for JSON.
func jsonMemory(src []byte) (total int64) {
	each := int64(perToken)
	if !json.Valid(src) {
		each = perError
	}
	quoted, escaped, word := false, false, false
	for _, b := range src {
		before := word
		word = false
		switch {
		case quoted:
			quoted = b != '"' || escaped
			escaped = b == '\\' && !escaped
		case b == '"':
			quoted, escaped = true, false
			total += each
		case b == ' ', b == '\t', b == '\r', b == '\n':
		default:
			word = b != ',' && b != ':' && b != '{' && b != '}' && b != '[' && b != ']'
			if !word || !before || each == perError {
				total += each
			}
		}
	}
	return total
}
