// Package texts is what the portal says, in each of its languages, and how it writes numbers and amounts there.
// English texts are their own names; another language is a catalogue, a file with a line for each: the English text, a
// tab, and its own.
package texts

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Language is one that the portal speaks.
type Language struct {
	Code string // BCP 47
	Name string // in itself
	// texts has what is said in place of English; nil for English.
	texts map[string]string
	// group and decimal stand in numbers.
	group, decimal string
}

// English is the language that texts are written in.
var English = &Language{Code: "en", Name: "English", group: ",", decimal: "."}

// German is the second one.
var German = &Language{Code: "de", Name: "Deutsch", texts: readCatalogue(germanTexts), group: ".", decimal: ","}

//go:embed de.txt
var germanTexts string

// readCatalogue reads a catalogue.
func readCatalogue(text string) map[string]string {
	texts := make(map[string]string)
	for line := range strings.Lines(text) {
		if english, own, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			texts[english] = own
		}
	}
	return texts
}

// Languages are all of them, English first.
var Languages = []*Language{English, German}

var matcher = language.NewMatcher([]language.Tag{language.English, language.German})

// Choose finds the language that a person has set or, without one, that the browser asks for (Accept-Language).
func Choose(set, accept string) *Language {
	for _, l := range Languages {
		if l.Code == set {
			return l
		}
	}
	tags, _, err := language.ParseAcceptLanguage(accept)
	if err != nil || len(tags) == 0 {
		return English
	}
	_, i, _ := matcher.Match(tags...)
	return Languages[i]
}

// Text says an English text in the language; args fill its verbs, as in fmt.
func (l *Language) Text(text string, args ...any) string {
	if own, ok := l.texts[text]; ok {
		text = own
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// Count says how many there are: one and many are English texts, the second with a %s for the number.
func (l *Language) Count(n int64, one, many string) string {
	if n == 1 {
		return l.Text(one)
	}
	return l.Text(many, l.Number(n))
}

// Number writes a whole number.
func (l *Language) Number(n int64) string {
	return strings.ReplaceAll(human.Thousands(n), ",", l.group)
}

// Digits writes a whole number that may be too large for an int64.
func (l *Language) Digits(text string) string {
	return strings.ReplaceAll(human.Grouped(text), ",", l.group)
}

// Exact writes microcents as credits with all of their decimals.
func (l *Language) Exact(microcents int64) string {
	whole, fraction, _ := strings.Cut(human.Exact(microcents), ".")
	return strings.ReplaceAll(whole, ",", l.group) + l.decimal + fraction
}

// Credits writes microcents as credits: with two decimals, and with as many as tell it from nothing where it is less.
func (l *Language) Credits(microcents int64) string {
	exact := l.Exact(microcents)
	if microcents == 0 {
		return "0"
	}
	size := microcents
	if size < 0 {
		size = -size
	}
	if size >= ledger.MicrocentsPerCredit/100 || size < 0 {
		return exact[:len(exact)-4] // cut, never rounded: sums on a page are the ledger's or less
	}
	return strings.TrimRight(exact, "0")
}

// Dollars writes microcents as US dollars.
func (l *Language) Dollars(microcents int64) string {
	cents := microcents / ledger.MicrocentsPerCredit
	sign := ""
	if microcents < 0 {
		sign, cents = "-", -cents
	}
	return sign + "US$" + l.Number(cents/100) + l.decimal + fmt.Sprintf("%02d", cents%100)
}

// ExactDollars writes microcents as US dollars with all of their decimals.
func (l *Language) ExactDollars(microcents int64) string {
	whole, part := microcents/perDollar, microcents%perDollar
	sign := ""
	if microcents < 0 {
		sign, whole, part = "-", -whole, -part
	}
	return sign + "US$" + l.Number(whole) + l.decimal + fmt.Sprintf("%08d", part)
}

const perDollar = 100 * ledger.MicrocentsPerCredit

// Month writes a month, "2026-11".
func (l *Language) Month(month string) string {
	t, err := time.Parse("2006-01", month)
	if err != nil {
		return month
	}
	return l.Text(t.Month().String()) + t.Format(" 2006")
}

// Milliseconds writes a time that passed.
func (l *Language) Milliseconds(ms float64) string {
	if ms < 1000 {
		return l.Number(int64(ms)) + " ms"
	}
	return strings.ReplaceAll(strconv.FormatFloat(ms/1000, 'f', 1, 64), ".", l.decimal) + " s"
}

// Decimal writes a number with so many decimals.
func (l *Language) Decimal(v float64, decimals int) string {
	text, sign := strconv.FormatFloat(v, 'f', decimals, 64), ""
	if strings.HasPrefix(text, "-") {
		text, sign = text[1:], "-"
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if whole = sign + l.Digits(whole); fraction == "" {
		return whole
	}
	return whole + l.decimal + fraction
}

// Has reports whether the language has a text of its own for an English one.
func (l *Language) Has(text string) bool {
	_, ok := l.texts[text]
	return ok || l.texts == nil
}
