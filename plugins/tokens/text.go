package tokens

import "unicode/utf8"

// How far to look for the end of a token, in bytes. Longer tokens exist, but hardly in texts that people send:
// those are repeated marks and blanks, which have a limit of their own.
const (
	longestToken  = 24
	longestRepeat = 128

	// lookahead is after how many beginnings in a row that are no token a longer one is no longer looked for;
	// a character of three or four bytes counts twice. The beginnings of a token are nearly all tokens themselves.
	// It bounds the work on texts that hold none.
	lookahead = 4
)

// Text returns about how many tokens a text has by itself, without any framing. It takes one pass over
// the text whatever the text is, and allocates nothing.
func Text(s string) int64 {
	var count int64
	for len(s) > 0 {
		n := piece(s)
		if n <= longestToken && known(keyOf(s[:n])) {
			count++
		} else {
			count += parts(s[:n])
		}
		s = s[n:]
	}
	return count
}

// parts returns about how many tokens a piece has that is no token by itself: it takes the longest token that
// the piece begins with, and so on. BPE merges by rank instead and sometimes ends with one more or one fewer.
func parts(s string) int64 {
	var count int64
	for ; len(s) > 0; count++ {
		s = s[longest(s):]
	}
	return count
}

// longest returns the length of the longest token that s begins with; s is not empty.
func longest(s string) int {
	var (
		limit, repeat  = min(len(s), longestToken), 0
		found, foundAt = 0, emptyKey
		left           = lookahead
		begin          = 0 // of the current character
	)
	for i, k := 0, emptyKey; i < limit && left > 0; {
		k = k.add(s[i])
		i++
		if i < len(s) && !utf8.RuneStart(s[i]) {
			continue
		}
		switch {
		case i < repeat && i%8 != 0: // long tokens of one repeated byte come in eights
		case known(k):
			found, foundAt, left = i, k, lookahead
			if i == 8 {
				repeat = run(s)
				limit = max(limit, repeat)
			}
		case i > repeat:
			left -= (i - begin + 1) / 2
		}
		begin = i
	}
	// A rare character is several tokens, of which the first can hold the end of what stands before it.
	if found < len(s) && s[found] >= utf8.RuneSelf {
		for i, k := found, foundAt; i < min(len(s), found+3); {
			k = k.add(s[i])
			i++
			if known(k) {
				found = i
			}
		}
	}
	return max(found, 1)
}

// run returns how often s repeats its first byte at its beginning, up to longestRepeat.
func run(s string) int {
	n := 1
	for n < min(len(s), longestRepeat) && s[n] == s[0] {
		n++
	}
	return n
}
