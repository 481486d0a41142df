package tokens

// The weights are averages over pieces of English prose, source code (Go, JavaScript, Python, C) and JSON,
// counted with o200k, and over manuals and messages in about thirty other languages.
const (
	unit = 256 // units in a token

	digitGroup  = 256 // up to three digits
	blankRun    = 256 // several blanks, or line ends with blanks between them
	loneBlank   = 256 // a blank that nothing takes along
	markRun     = 256 // marks of one or two kinds
	markChange  = 128 // each further change from one mark to another
	markRepeat  = 5   // a mark that repeats the one before it
	contraction = 80  // 's, 't, 're, ...

	// blankRunBytes is how much white space one token can stand for.
	blankRunBytes = 64
)

// Beyond ASCII: a word of an alphabet costs its first letter and then each further one; everything else
// costs by character.
const (
	accent        = 240
	greekWord     = 241
	greekMore     = 84
	cyrillicWord  = 262
	cyrillicMore  = 46
	semiticWord   = 254
	semiticMore   = 40
	indicWord     = 256
	indicMore     = 51
	kana          = 173
	ideograph     = 218
	hangul        = 192
	ideographMark = 170 // CJK and fullwidth punctuation
	symbol        = 450 // arrows, boxes, typographic punctuation
	rareLetter    = 700
	astral        = 512 // emoji, rare ideographs
)

// wordCosts is what words cost by what stands before them.
type wordCosts struct {
	letters      [16]int64 // small letters, perhaps after one capital: by their number; the last for longer ones
	moreLetters  int64     // each letter beyond the table
	capitals     int64     // one or two capitals
	moreCapitals int64     // each further capital
	mixed        int64     // several capitals, then small letters
}

// small is the cost of a word of n small letters, of which the first may be a capital.
func (w *wordCosts) small(n int) int64 {
	if over := n - len(w.letters); over > 0 {
		return w.letters[len(w.letters)-1] + int64(over)*w.moreLetters
	}
	return w.letters[n-1]
}

var (
	bareWord = wordCosts{
		letters:     [16]int64{256, 272, 280, 284, 288, 292, 313, 324, 350, 361, 400, 445, 485, 561, 650, 708},
		moreLetters: 100, capitals: 256, moreCapitals: 60, mixed: 640,
	}
	spacedWord = wordCosts{
		letters:     [16]int64{256, 257, 260, 263, 270, 274, 278, 287, 295, 305, 318, 326, 330, 345, 400, 600},
		moreLetters: 100, capitals: 256, moreCapitals: 30, mixed: 462,
	}
	markedWord = wordCosts{
		letters:     [16]int64{267, 299, 312, 328, 350, 365, 411, 443, 490, 520, 604, 704, 730, 800, 880, 960},
		moreLetters: 100, capitals: 330, moreCapitals: 32, mixed: 720,
	}
)
