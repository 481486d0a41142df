package predict

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folded has, for each rune below Georgian capitals, what it is without accents and, where it is not Latin, in small
// letters; 0 for accents by themselves.
var folded [0x2000]uint16

func init() {
	special := map[rune]rune{'ß': 's', 'ø': 'o', 'Ø': 'O', 'ł': 'l', 'Ł': 'L', 'đ': 'd', 'Đ': 'D', 'ı': 'i', 'æ': 'a',
		'Æ': 'A', 'œ': 'o', 'Œ': 'O', 'ð': 'd', 'þ': 't', 'ё': 'е', 'Ё': 'е'}
	for r := range rune(len(folded)) {
		to := r
		if s, ok := special[r]; ok {
			to = s
		} else if r >= 0xc0 && (r < 0x250 || r >= 0x370 && r < 0x400 || r >= 0x1e00) {
			if d, _ := utf8.DecodeRuneInString(norm.NFD.String(string(r))); d != utf8.RuneError {
				to = d
			}
		}
		if to >= 0x250 {
			to = unicode.ToLower(to)
		}
		if r >= 0x300 && r < 0x370 || r >= 0x64b && r <= 0x65f || r >= 0x591 && r <= 0x5c7 {
			to = 0 // accents of Latin, Arabic and Hebrew
		}
		folded[r] = uint16(to)
	}
}
