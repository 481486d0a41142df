package rules

import "unicode"

// lookalikes are small letters of other alphabets that look like small Latin ones, or whose capitals look alike
// (Unicode, confusables.txt; Hebrew, Arabic, N'Ko and digits left out). The first one for a Latin letter stands for it
// where a word of that alphabet has Latin letters in it.
const lookalikes = "аaвbсcԁdеeнhһhіiїiјjкkӏlмmоoрpԛqѕsтtѵvԝwхxуyүyғfьbгrҽeԍgꙇiѡw" + // Cyrillic
	"αaβbϲcεeηnιiϳjκkνvοoρpτtυuχxγyωwζzμuσoϝfϻmᴦr" + // Greek
	"օoսuհhցgոnզqցgյjկuմuոnտsքfռnգqաw" + // Armenian
	"ꭰdꭱrꭲtꭵiꭹyꭺaꭻjꭼeꮃwꮇmꮋhꮍyꮎoꮐgꮒhꮓz" + // Cherokee
	"ꮟbꮢrꮥsꮩvꮪsꮮlꮯcꮲpꮶkꮷdᏻgᏼbᏴbᏳgꮁrꮤw" +
	"ᗅaᗩaᗷbᑕcᗞdᗪdᗴeᖴfᕼhᒍjᛕkᒪlᗰmᑎnᑭpᖇrᔕsᑌuᐯvᗯw᙭xᐱaᑲbᖯbᑯdᕁxᕽx" + // Canadian Aboriginal
	"ⲁaⲃbⲉeⲏhⲓiⲕkⲙmⲛnⲟoⲣpⲥcⲧtⲩyⲭxⲅrⳑl" + // Coptic
	"ꓮaꓐbꓚcꓓdꓰeꓝfꓖgꓧhꓲiꓙjꓗkꓡlꓟmꓠnꓳoꓑpꓣrꓢsꓔtꓴuꓦvꓪwꓫxꓬyꓜzꓒd" + // Lisu
	"ⴹeⵏlⵔoⵕqⴸvⵝxꛟvᛁlᛖmᚷxჿoყyዐoሀuഠoଠoဝo" + // Tifinagh, Bamum, runes, and letters like rings
	"𖽀a𖼨l𖼖l𖼵r𖼺s𖼊t𖽂u𖼈v𖽃y𑜆v𑜊w𑜎w𑜏w" + // Miao, Ahom
	"𑣆e𑣎e𑣂f𑣃l𑣒l𑣈o𑣗o𑣕o𑣁s𑣜y𑣘u𑣀v𑣄z𑣉z" + // Warang Citi
	"𐊠a𐊡b𐊢c𐊥f𐋏h𐊰m𐊫o𐊱t𐊴x𐊲y𐊂b𐊆e𐊇f𐊊l𐊒o𐊕p𐊖s𐊗t𐊐x" + // Carian, Lycian
	"𐌁b𐌂c𐌉l𐌑m𐌕t𐌗x𐐽c𐑃l𐐬o𐑈s𐔜c𐔥f𐔘k𐔦l𐔓n𐔖o𐔝v𐔧x𐓪o𐓜r𐓶u" // Old Italic, Deseret, Elbasan, Osage

// capitals are small letters of Greek whose capitals look like other Latin letters than they do.
const capitals = "ηhμmνnυy"

// shapesOnly are letters of Cyrillic for which Latin ones stand in Cyrillic words, but not the other way round.
const shapesOnly = "пnиu"

// drawings are signs that are a Latin letter and nothing else: small capitals, letters without a dot, and those of
// phonetic and other alphabets that are drawn like a plain one (Unicode, confusables.txt).
const drawings = "ᴀaʙbᴄcᴅdᴇeꜰfɢgʜhɪiᴊjᴋkʟlᴍmɴnᴏoᴘp" +
	"ꞯqʀrꜱsᴛtᴜuᴠvᴡwʏyᴢzɑaɡgɩiıiȷj" +
	"ɾrƅbꞵbꬲeꬵfꞙfẝfᶃgƍgʝjǀlᴑoꬽoꭇrꭈrƽsꞟuꭎuꭒuʋuɯwꭓxɣyᶌyỿyꭚy"

// struck are Latin letters with a stroke or a hook, and the letters without it. They have no decomposition.
const struck = "øođdłlħhŧtƀbɨiƶzɇeɉjɍrɏyⱥaⱦtȼcʉuɓbƈcɖdɗdƒfɠgɦhƙkɲnƞnŋnƥpʠqʂsƭtʈtʐzɛeɔo"

var (
	looks  = tableOf(lookalikes)
	drawn  = tableOf(drawings)
	tall   = tableOf(capitals)
	bare   = tableOf(struck)
	shapes = map[*unicode.RangeTable]map[byte]rune{unicode.Cyrillic: {}, unicode.Greek: {}}
	// tallShapes are those of the capitals of Greek.
	tallShapes = map[byte]rune{}
	lowLook    = func() (table [0x600]byte) {
		for r, latin := range looks {
			if int(r) < len(table) {
				table[r] = latin
			}
		}
		return table
	}()
)

func init() {
	runes := []rune(lookalikes + shapesOnly)
	for i := 0; i < len(runes); i += 2 {
		for script, of := range shapes {
			latin := byte(runes[i+1])
			if _, taken := of[latin]; !taken && unicode.Is(script, runes[i]) {
				of[latin] = runes[i]
			}
		}
	}
	for r, latin := range tall {
		tallShapes[latin] = r
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
	case 0x13a0 <= r && r <= 0x16ff, 0x2c80 <= r && r <= 0x2cff, 0xa4d0 <= r && r <= 0xa4ff, 0xab70 <= r && r <= 0xabbf,
		0x2d30 <= r && r <= 0x2d7f, 0xa640 <= r && r <= 0xa6ff, 0x10280 <= r && r <= 0x1052f, 0x11700 <= r && r <= 0x118df,
		0x16f00 <= r && r <= 0x16f9f, r == 0xb20, r == 0xd20, r == 0x101d, 0x10d0 <= r && r <= 0x12d0, r == 0x1d26:
		return looks[r]
	}
	return 0
}

// latinOf is the Latin letter that a sign draws, 0 for none.
func latinOf(r rune) byte {
	switch {
	case r == 'ı', 0x185 <= r && r <= 0x1c0, 0x237 <= r && r <= 0x2af, 0x1d00 <= r && r <= 0x1d22, r == 0x1d83,
		r == 0x1d8c, r == 0x1e9d, r == 0x1eff, 0xa730 <= r && r <= 0xa7ff, 0xab30 <= r && r <= 0xab6f:
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
// variation selectors, letters that are shown as nothing, what is no character, and what is one for nobody else.
func invisible(r rune) bool {
	switch {
	case plainLetter(r):
		return false
	case 0xfe00 <= r && r <= 0xfe0f, 0xe0000 <= r && r <= 0xe0fff, 0x180b <= r && r <= 0x180f:
		return true
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x34f,
		r == 0x2065:
		return true
	case 0xfdd0 <= r && r <= 0xfdef, r&0xfffe == 0xfffe, 0xfff0 <= r && r <= 0xfff8, r == 0xfffc:
		return true
	case 0xe000 <= r && r <= 0xf8ff, r >= 0xf0000: // for private use
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
// Arabic, the stroke that only makes an Arabic word longer, and the dot of borrowed sounds in Hindi.
func unwritten(r rune) bool {
	return r == 0x93c || 0x591 <= r && r <= 0x6ed && (r == 0x640 || r == 0x670 || unicode.Is(unicode.Mn, r))
}

// apostrophe reports whether the sign stands for one (Unicode, confusables.txt).
func apostrophe(r rune) bool {
	switch r {
	case '\u2018', '\u2019', '\u201b', '\u2032', '\u2035', '\u02b9', '\u02bb', '\u02bc', '\u02bd', '\u02c8', '\u02ca',
		'\u02cb', '\u05f3', '\ua78b', '\ua78c', '\u00b4':
		return true
	}
	return false
}

// usualSpelling is the letter that stands for one that its language writes both ways, or the letter itself.
func usualSpelling(r rune) rune {
	if 0x370 <= r && r <= 0x3ff || r == 'ё' || 0x622 <= r && r <= 0x6d5 || r == 0x901 {
		if s, known := spellings[r]; known {
			return s
		}
	}
	return r
}

// spellings are of Russian, Greek, Arabic, Persian and Hindi (as in Lucene's ArabicNormalizer, PersianNormalizer and
// HindiNormalizer).
var spellings = map[rune]rune{'ё': 'е', 'ά': 'α', 'έ': 'ε', 'ή': 'η', 'ί': 'ι', 'ό': 'ο', 'ύ': 'υ',
	'ώ': 'ω', 'ϊ': 'ι', 'ϋ': 'υ', 'ΐ': 'ι', 'ΰ': 'υ',
	'آ': 'ا', 'أ': 'ا', 'إ': 'ا', 'ٱ': 'ا', 'ى': 'ي', 'ی': 'ي', 'ک': 'ك', 'ة': 'ه',
	'ھ': 'ه', 'ۀ': 'ه', 'ہ': 'ه', 'ە': 'ه', 'ے': 'ي', '\u0901': '\u0902'}

// eastAsian reports whether the character is a letter of a script without cases, and like none of another: of those in
// the ideographs, the kana and the syllables of Hangul.
func eastAsian(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3041 <= r && r <= 0x3096 || 0x30a1 <= r && r <= 0x30fa || hangul(r)
}

func hangul(r rune) bool { return 0xac00 <= r && r <= 0xd7a3 }

// plainLetter reports whether the character is a letter of the scripts that most texts are in, and can be seen.
func plainLetter(r rune) bool { return 0x410 <= r && r <= 0x44f || eastAsian(r) }
