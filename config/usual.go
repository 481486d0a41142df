package config

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// ModelsFor are those of the models that a plugin knows which hold with these settings.
func ModelsFor(values settings.Values, known []llm.Model) []llm.Model {
	var set map[string]any
	if len(values) > 0 && json.Unmarshal(values, &set) != nil {
		return nil
	}
	var out []llm.Model
	for _, m := range known {
		holds := true
		for name, want := range m.Where {
			value := ""
			if v, ok := set[name]; ok {
				value = fmt.Sprint(v)
			}
			holds = holds && value == want
		}
		if holds {
			out = append(out, m)
		}
	}
	return out
}

// usualPrice is what a model is known to cost. The zero value is of one that nobody knows.
type usualPrice struct {
	model, source string
	classes       map[string]string // US dollars per million tokens, as they are written
}

// usual is what the model of a route usually costs, by its provider's plugin. Plugins are other people's programs:
// what is no price is left out.
func (l *loader) usual(provider, model string) (u usualPrice) {
	for _, m := range l.known[provider] {
		if m.ID != model || m.Price == nil {
			continue
		}
		u = usualPrice{model: clip(model), classes: make(map[string]string)}
		if u.source = clip(m.Source); u.source == "" {
			u.source = "its plugin"
		}
		if m.Date != "" {
			u.source += ", read " + clip(m.Date)
		}
		u.source = strings.Map(onOneLine, u.source)
		for _, c := range priceClassesOf(m.Price) {
			if usualPattern.MatchString(c.text) {
				u.classes[c.name] = c.text
			}
		}
	}
	return u
}

type classPrice struct{ name, text string }

// priceClassesOf are the classes of a price, in the order in which they are written.
func priceClassesOf(p *llm.ModelPrice) []classPrice {
	return []classPrice{{"input", p.Input}, {"output", p.Output}, {"cache_read", p.CacheRead},
		{"cache_write", p.CacheWrite}}
}

// usualPattern is what a plugin's prices are written like.
var usualPattern = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,8})?$`)

func onOneLine(r rune) rune {
	if unicode.IsControl(r) || r == '"' {
		return ' '
	}
	return r
}

// advice is how to write a price block.
func (u usualPrice) advice() string {
	if u.classes["input"] == "" || u.classes["output"] == "" {
		return ", for example:\n" + priceExample
	}
	width := len("output")
	if u.classes["cache_read"]+u.classes["cache_write"] != "" {
		width = len("cache_write")
	}
	var b strings.Builder
	fmt.Fprintf(&b, ". What %s usually costs (%s):\nprice {\n", u.model, u.source)
	for _, name := range []string{"input", "output", "cache_read", "cache_write"} {
		if text := u.classes[name]; text != "" {
			fmt.Fprintf(&b, "  %-*s = %s\n", width, name, text)
		}
	}
	b.WriteString("}")
	return b.String()
}

// slip is the factor from which on a price is in another unit and not just another one: that of a thousand tokens, of
// one, or in cents of cents. No margin and no discount comes near.
const slip = 300

// compare warns of a price that is so far from the usual one that its unit is another. Nothing is said of zero, which
// is no slip.
func (u usualPrice) compare(s *section, v value, given int64) {
	n, _, err := big.ParseFloat(u.classes[v.name], 10, decimalBits, big.ToNearestEven)
	if err != nil || given == 0 {
		return
	}
	usual, problem := microcents(n)
	if problem != "" || usual == 0 || given < slip*usual && usual < slip*given {
		return
	}
	far := fmt.Sprintf("%s times", rounded(given, usual))
	if given < usual {
		far = fmt.Sprintf("1/%s of", rounded(usual, given))
	}
	if v.outside {
		far = "far from"
	}
	s.warn(v.at, fmt.Sprintf("%s is %s what %s usually costs", v.name, far, u.model),
		fmt.Sprintf("A price is in US dollars for a million tokens, and this one usually is %s (%s). If it is not meant to "+
			"be so far from that, write %s = %s.", u.classes[v.name], u.source, v.name, u.classes[v.name]))
}

// rounded is a ratio as a whole number, with commas.
func rounded(a, b int64) string {
	digits := fmt.Sprint((a + b/2) / b)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
