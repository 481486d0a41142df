package predict

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Asked is a length of the reply that a request asks for, in tokens: "600 words", "at most three sentences". The zero
// value is none.
type Asked struct {
	low, high float32
	bounded   bool // it says "at most" or "at least"
}

// or is a length that is asked for in either of two places: the narrower one.
func (a Asked) or(b Asked) Asked {
	switch {
	case a == Asked{}:
		return b
	case b == Asked{}:
		return a
	}
	out := Asked{max(a.low, b.low), b.high, a.bounded || b.bounded}
	if a.high > 0 && (b.high == 0 || a.high < b.high) {
		out.high = a.high
	}
	if out.high > 0 && out.low > out.high { // they are of parts of the reply
		out.low, out.high = min(a.low, b.low), max(a.high, b.high)
	}
	return out
}

// usual is about how long it is, 0 for none.
func (a Asked) usual() float32 {
	switch {
	case a.high == 0:
		return a.low
	case a.low == 0:
		return a.high
	}
	return float32(math.Sqrt(float64(a.low * a.high)))
}

// bound keeps the logarithm of a length between the bounds.
func (a Asked) bound(length float32) float32 {
	if a.low > 0 {
		length = max(length, float32(math.Log(float64(a.low))))
	}
	if a.high > 0 {
		length = min(length, float32(math.Log(float64(a.high))))
	}
	return length
}

// How far from the length that is asked for replies are, as a share of it: for units that can be counted on, and for
// things of no certain length (reasons, points).
const (
	exactLow, exactHigh = 0.75, 1 / 0.75
	itemLow, itemHigh   = 0.2, 6
	leastAsked          = 20 // tokens: what is shorter is of parts of the reply
	mostAsked           = 30_000
)

// asker finds the length that a text asks for, as units are found in it.
type asker struct{ asked Asked }

// unit notes a unit of so many tokens, behind a number.
func (a *asker) unit(tokens float64, text []byte, numbers []number, begin, end int) {
	n, at := before(text, numbers, begin)
	amount := float32(min(n*tokens, mostAsked))
	if n < 2 || amount < leastAsked { // "no word twice", "one line a day"
		return
	}
	low, high := float32(exactLow), float32(exactHigh)
	if tokens == unitTokens["unititem"] {
		low, high = itemLow, itemHigh
	}
	one := Asked{low: low * amount, high: high * amount}
	const front, behind = 32, 14 // bytes in which "at most" is looked for
	ahead, rest := text[max(at-front, 0):at], text[end:min(end+behind, len(text))]
	switch {
	case contain(ahead, rest, atMost()):
		one = Asked{high: one.high, bounded: true}
	case contain(ahead, rest, atLeast()):
		one = Asked{low: one.low, bounded: true}
	}
	a.asked = a.asked.or(one)
}

// contain reports whether one of two texts has a phrase.
func contain(ahead, rest []byte, list [][]byte) bool {
	return slices.ContainsFunc(list, func(phrase []byte) bool {
		return bytes.Contains(ahead, phrase) || bytes.Contains(rest, phrase)
	})
}

// phrases are those of a list with commas, in small letters without accents.
func phrases(list string) (out [][]byte) {
	for phrase := range strings.SplitSeq(list, ",") {
		b := appendFolded(nil, []byte(phrase))
		for i, c := range b {
			b[i] = lower[c]
		}
		out = append(out, b)
	}
	return out
}

// What says that a length is the most, or the least.
var atMost = sync.OnceValue(func() [][]byte {
	return phrases(" até , do ,max, до , עד ,まで,不超过,以下,以内,最多,最大,至多,이내,이하,최대,al massimo,at most," +
		"au plus,bis zu,cel mult,como máximo,en fazla,enintään,fewer than,hasta,hooguit,höchstens,högst," +
		"không quá,legfeljebb,less than,limit,maksimal,maksimum,maksymalnie,massimo,max of,maxim,maximaal," +
		"maximal,maximum,maximálně,meno di,menos de,moins de,máximo,najwyżej,nejvýše,nicht mehr als," +
		"nie więcej niż,niet meer dan,no more than,no más de,no máximo,non più di,not more than,or fewer," +
		"or less,paling banyak,pas plus de,tops,tối đa,under,unter,up to,within,μέχρι,το πολύ,максимум," +
		"не более,не больше,не більше,щонайбільше,לכל היותר,حداکثر,على الأكثر,كحد أقصى,لا تزيد,لا يزيد," +
		"अधिक से अधिक,अधिकतम,ज़्यादा से ज़्यादा,ไม่เกิน")
})

var atLeast = sync.OnceValue(func() [][]byte {
	return phrases(" min ,以上,最低,最少,至少,이상,최소,al menos,alespoň,almeno,aspoň,at least,au moins,cel puțin," +
		"co najmniej,en az,legalább,mindestens,minimo,minimum,minst,minstens,mínimo de,nejméně,no fewer than," +
		"no less than,no mínimo,or more,pelo menos,por lo menos,sedikitnya,setidaknya,ten minste,tối thiểu," +
		"vähintään,wenigstens,åtminstone,ít nhất,τουλάχιστον,минимум,не менее,не менше,не меньше,щонайменше," +
		"לפחות,حداقل,على الأقل,कम से कम,อย่างน้อย,少なくとも")
})

// number is one of a text's, and where it ends.
type number struct {
	value float64
	end   int
}

// before is the number that ends where a word begins, or a blank or hyphen before, and where it ends; 0 for none.
func before(text []byte, numbers []number, at int) (n float64, end int) {
	const most = 20_000
	for i, n := range numbers {
		if n.end > at || n.end < at-1 {
			continue
		}
		if i > 0 && n.value < 1000 && numbers[i-1].end == n.end-4 { // 1,500
			n.value += 1000 * numbers[i-1].value
		}
		return min(n.value, most), n.end
	}
	end = at
	for end > 0 && (text[end-1] == ' ' || text[end-1] == '-') {
		end--
	}
	begin := end
	for begin > 0 && class[text[begin-1]]&isLetter != 0 {
		begin--
	}
	if v, ok := smallNumbers[string(text[begin:end])]; ok {
		return v, end
	}
	return inChinese(text[begin:end]), end
}

// inChinese is the number below 100 in Chinese that a text ends in, 0 for none.
func inChinese(text []byte) float64 {
	digit := func() float64 {
		r, size := utf8.DecodeLastRune(text)
		for n, one := range []rune("一二三四五六七八九十两") {
			if r == one {
				text = text[:len(text)-size]
				return []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2}[n]
			}
		}
		return 0
	}
	n := digit()
	if n == 0 || n == 10 {
		return max(digit(), 1) * n
	}
	if digit() != 10 {
		return n
	}
	return 10*max(digit(), 1) + n
}

// smallNumbers are numbers in words, in small letters without accents.
var smallNumbers = map[string]float64{}

func init() {
	for n, words := range []string{
		2: "two a-couple-of zwei deux dos due dois duas twee tva dwa dwie dwoch dva dve dvema два " +
			"две двух двумя дві двома iki dua hai 두 שני שתי दो doua două δυο kaksi ket ketto mbili " +
			"สอง",
		3: "three drei trois tres tre drie tři tri trzy trzech три трех тремя трьома uc tiga ba 세 " +
			"ثلاث ثلاثة שלוש שלושה तीन trei τρια τρεις kolme harom tatu สาม",
		4: "four vier quatre cuatro quattro quatro fyra cztery ctyri четыре чотири dort empat bon 네 " +
			"اربع ארבע ארבעה चार patru τεσσερα τεσσερις nelja negy nne สี่",
		5: "five funf fuenf cinq cinco cinque vijf fem piec pet пять п'ять bes lima nam 다섯 خمس חמש " +
			"חמישה पांच cinci πεντε viisi ot tano ห้า",
		6: "six sechs seis sei zes sex szesc sest шесть шість alti enam sau 여섯 ست שש छह sase εξι " +
			"kuusi hat sita หก",
		7: "seven sieben sept siete sette sete zeven sju siedem sedm семь сім yedi tujuh bay 일곱 سبع " +
			"שבע सात sapte επτα seitseman saba เจ็ด",
		8: "eight acht huit ocho otto oito atta osiem osm восемь вісім sekiz delapan tam 여덟 ثمان " +
			"שמונה आठ opt οκτω kahdeksan nyolc nane แปด",
		9: "nine neun neuf nueve nove negen nio dziewiec devet девять дев'ять dokuz sembilan chin " +
			"아홉 تسع תשע नौ noua εννεα yhdeksan kilenc tisa เก้า",
		10: "ten zehn dix diez dieci dez tien tio dziesiec deset десять on sepuluh muoi 열 عشر עשר दस " +
			"zece δεκα kymmenen tiz kumi สิบ",
		12: "twelve zwolf douze doce dodici doze twaalf tolv dwanascie dvanact двенадцать дванадцять",
		20: "twenty zwanzig vingt veinte venti vinte twintig tjugo dwadziescia dvacet двадцать " +
			"двадцять yirmi",
	} {
		for _, word := range fields(words) {
			if _, ok := smallNumbers[string(word)]; !ok {
				smallNumbers[string(word)] = float64(n)
			}
		}
	}
}
