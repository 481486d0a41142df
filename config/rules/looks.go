package rules

import "unicode"

// lookalikes are small letters of other alphabets that look like small Latin ones, or whose capitals look alike
// (Unicode, confusables.txt). The first one for a Latin letter stands for it where a word of that alphabet has Latin
// letters in it.
const lookalikes = "аaвbсcԁdеeнhһhіiїiјjкkӏlмmоoрpԛqѕsтtѵvԝwхxуyүyғf" + // Cyrillic
	"αaβbϲcεeηnιiϳjκkνvοoρpτtυuχxγyωwζz" + // Greek
	"օoսuհhցgոnզqցgյjկuմuոnտs" + // Armenian
	"ꭰdꭱrꭲtꭵiꭹyꭺaꭻjꭼeꮃwꮇmꮋhꮍyꮎoꮐgꮒhꮓz" + // Cherokee
	"ꮟbꮢrꮥsꮩvꮪsꮮlꮯcꮲpꮶkꮷdᏻgᏼbᏴbᏳg" +
	"ᗅaᗩaᗷbᑕcᗞdᗪdᗴeᖴfᕼhᒍjᛕkᒪlᗰmᑎnᑭpᖇrᔕsᑌuᐯvᗯw᙭xᐱa" + // Canadian Aboriginal
	"ⲁaⲃbⲉeⲏhⲓiⲕkⲙmⲛnⲟoⲣpⲥcⲧtⲩyⲭx" + // Coptic
	"ꓮaꓐbꓚcꓓdꓰeꓝfꓖgꓧhꓲiꓙjꓗkꓡlꓟmꓠnꓳoꓑpꓣrꓢsꓔtꓴuꓦvꓪwꓫxꓬyꓜz" // Lisu

// drawings are signs that are a Latin letter and nothing else: small capitals, and letters without a dot.
const drawings = "ᴀaʙbᴄcᴅdᴇeꜰfɢgʜhɪiᴊjᴋkʟlᴍmɴnᴏoᴘp" +
	"ꞯqʀrꜱsᴛtᴜuᴠvᴡwʏyᴢzɑaɡgɩiıiȷj"

var (
	looks   = tableOf(lookalikes)
	drawn   = tableOf(drawings)
	shapes  = map[*unicode.RangeTable]map[byte]rune{unicode.Cyrillic: {}, unicode.Greek: {}}
	lowLook = func() (table [0x600]byte) {
		for r, latin := range looks {
			if int(r) < len(table) {
				table[r] = latin
			}
		}
		return table
	}()
)

func init() {
	runes := []rune(lookalikes)
	for i := 0; i < len(runes); i += 2 {
		for script, of := range shapes {
			latin := byte(runes[i+1])
			if _, taken := of[latin]; !taken && unicode.Is(script, runes[i]) {
				of[latin] = runes[i]
			}
		}
	}
}

// tableOf reads pairs of a letter and a Latin one.
func tableOf(pairs string) map[rune]byte {
	runes, table := []rune(pairs), make(map[rune]byte)
	for i := 0; i < len(runes); i += 2 {
		table[runes[i]] = byte(runes[i+1])
	}
	return table
}

// lookalike is the Latin letter that a small letter of another alphabet looks like, 0 for none.
func lookalike(r rune) byte {
	switch {
	case int(r) < len(lowLook):
		return lowLook[r]
	case 0x13a0 <= r && r <= 0x16ff, 0x2c80 <= r && r <= 0x2cff, 0xa4d0 <= r && r <= 0xa4ff, 0xab70 <= r && r <= 0xabbf:
		return looks[r]
	}
	return 0
}

// latinOf is the Latin letter that a sign draws, 0 for none.
func latinOf(r rune) byte {
	switch {
	case r == 'ı', 0x237 <= r && r <= 0x2af, 0x1d00 <= r && r <= 0x1d22, 0xa730 <= r && r <= 0xa7ff:
		return drawn[r]
	}
	return 0
}

// framed is the Latin letter that stands in a ring, a box or brackets, 0 for none.
func framed(r rune) byte {
	for _, first := range [...]rune{0x249c, 0x1f110, 0x1f150, 0x1f170} {
		if first <= r && r < first+26 {
			return byte('a' + r - first)
		}
	}
	return 0
}

// hiddenLetter is the ASCII of a tag character, which nobody sees and models read, and the letter of a half of a flag;
// 0 for none.
func hiddenLetter(r rune) byte {
	switch {
	case 0xe0020 <= r && r <= 0xe007e:
		return byte(r - 0xe0000)
	case 0x1f1e6 <= r && r <= 0x1f1ff:
		return byte('a' + r - 0x1f1e6)
	}
	return 0
}

// invisible reports whether nobody sees the character: format controls (zero-width ones, soft hyphens, tags),
// variation selectors, letters that are shown as nothing, and what is no character.
func invisible(r rune) bool {
	switch {
	case plainLetter(r):
		return false
	case 0xfe00 <= r && r <= 0xfe0f, 0xe0000 <= r && r <= 0xe0fff, 0x180b <= r && r <= 0x180f:
		return true
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x34f,
		r == 0x2065:
		return true
	case 0xfdd0 <= r && r <= 0xfdef, r&0xfffe == 0xfffe, 0xfff0 <= r && r <= 0xfff8:
		return true
	}
	return unicode.Is(unicode.Cf, r)
}

// control reports whether the character stands for no text: a control character, or what is left of a damaged one.
func control(r rune) bool {
	return r < ' ' && (r < '\t' || r > '\r') || 0x7f <= r && r <= 0x9f && r != 0x85 || r == 0xfffd
}

// ornament reports whether the character is a mark on the one before that made no letter with it, such as a stroke.
func ornament(r rune) bool {
	return 0x300 <= r && r <= 0x36f || 0x1ab0 <= r && r <= 0x1aff || 0x1dc0 <= r && r <= 0x1dff ||
		0x20d0 <= r && r <= 0x20ff || 0xfe20 <= r && r <= 0xfe2f || 0x483 <= r && r <= 0x489 || 0xa66f <= r && r <= 0xa672
}

// unwritten reports whether the character is one that its language leaves out at will: points of Hebrew, vowels of
// Arabic, and the stroke that only makes an Arabic word longer.
func unwritten(r rune) bool {
	return 0x591 <= r && r <= 0x6ed && (r == 0x640 || r == 0x670 || unicode.Is(unicode.Mn, r))
}

// usualSpelling is the letter that stands for one that its language writes both ways, or the letter itself.
func usualSpelling(r rune) rune {
	if 0x370 <= r && r <= 0x3ff || r == 'ё' || 0x622 <= r && r <= 0x6cc {
		if s, known := spellings[r]; known {
			return s
		}
	}
	return r
}

var spellings = map[rune]rune{'ё': 'е', 'ά': 'α', 'έ': 'ε', 'ή': 'η', 'ί': 'ι', 'ό': 'ο', 'ύ': 'υ',
	'ώ': 'ω', 'ϊ': 'ι', 'ϋ': 'υ', 'ΐ': 'ι', 'ΰ': 'υ',
	'آ': 'ا', 'أ': 'ا', 'إ': 'ا', 'ٱ': 'ا', 'ى': 'ي', 'ی': 'ي', 'ک': 'ك'}

// eastAsian reports whether the character is a letter of a script without cases, and like none of another: of those in
// the ideographs, the kana and the syllables of Hangul.
func eastAsian(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3041 <= r && r <= 0x3096 || 0x30a1 <= r && r <= 0x30fa || hangul(r)
}

func hangul(r rune) bool { return 0xac00 <= r && r <= 0xd7a3 }

// plainLetter reports whether the character is a letter of the scripts that most texts are in, and can be seen.
func plainLetter(r rune) bool { return 0x410 <= r && r <= 0x44f || eastAsian(r) }
