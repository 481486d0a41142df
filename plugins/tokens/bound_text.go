package tokens

// most is the most tokens that a beginning of a text can have: if the last of them has one byte, two, or more.
type most struct{ one, two, more int64 }

const never = -1 << 32

func (m most) any() int64 { return max(m.one, m.two, m.more) }

// boundText returns a number of tokens that s, which is UTF-8, cannot exceed in o200k_base and cl100k_base; the
// package's page has the proof. It walks s once and keeps the most tokens up to each of the last three places.
func boundText(s string) int64 {
	if s == "" {
		return 0
	}
	none := most{never, never, never}
	before3, before2, before1 := none, none, most{one: 1, two: never, more: never} // up to s[i-3] and with it, ...
	joinedB := false                                                               // s[i-1] to what is before it
	for i := 1; i < len(s); i++ {
		b, c := s[i-1], s[i]
		joinedC := joined(s, i)
		triple := i > 1 && tripleMerges(s[i-2], b, c)

		now := most{one: before1.more + 1}
		if !joinedC || !pairMerges(b, c) {
			now.one = max(now.one, before1.one+1)
		}
		if !joinedC || !triple {
			now.one = max(now.one, before1.two+1)
		}
		now.two = max(before2.two, before2.more) + 1
		if !joinedB || !triple {
			now.two = max(now.two, before2.one+1)
		}
		now.more = max(before1.more, before3.any()+1)
		switch i { // tokens that begin with the text
		case 1:
			now.two = 1
		case 2:
			now.more = 1
		}
		before3, before2, before1, joinedB = before2, before1, now, joinedC
	}
	return before1.any()
}

// joined reports whether both vocabularies' splitting rules certainly keep s[i-1] and s[i] in one piece. Where
// it is not certain, or not worth knowing, the answer is no, which only raises the bound.
func joined(s string, i int) bool {
	switch before, c := kindOf[s[i-1]], kindOf[s[i]]; c {
	case kindLower, kindUpper:
		switch before {
		case kindSpace:
			return true // a word takes the blank before it along
		case kindUpper:
			return !contracted(s, i)
		case kindLower:
			return c == kindLower && !contracted(s, i) // o200k cuts "camelCase" before the capital
		case kindMark:
			// A word takes one mark along if that begins a piece, as it does after a letter or a digit.
			return s[i-1] != '\'' && i > 1 && kindOf[s[i-2]] >= kindDigit
		}
	case kindMark:
		switch before {
		case kindSpace:
			return true // and so does a run of marks
		case kindMark:
			return s[i-1] != '/' || s[i] == '/' // o200k takes slashes to the ends of lines before them
		}
	case kindSpace, kindTab:
		// A run of white space may be cut before its last character.
		return s[i-1] == s[i] && i+1 < len(s) && s[i+1] == s[i]
	}
	return false
}

// contracted reports whether an ending like "'s" or "'ll" may end before s[i].
func contracted(s string, i int) bool {
	return i > 1 && s[i-2] == '\'' || i > 2 && s[i-3] == '\''
}

// What joined sees in a byte; the order counts.
const (
	kindOther = iota // ends of lines, control characters, and all beyond ASCII
	kindSpace
	kindTab
	kindMark
	kindDigit
	kindUpper
	kindLower
)

var kindOf = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c == ' ':
			t[c] = kindSpace
		case c == '\t':
			t[c] = kindTab
		case c >= '0' && c <= '9':
			t[c] = kindDigit
		case c >= 'A' && c <= 'Z':
			t[c] = kindUpper
		case c >= 'a' && c <= 'z':
			t[c] = kindLower
		case c > ' ' && c < 0x7F:
			t[c] = kindMark
		}
	}
	return t
}()
