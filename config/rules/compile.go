package rules

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// leastLiteral is how long a part of a pattern must be to be looked for first, in bytes.
	leastLiteral = 3
	// maxLiterals is how many parts may stand in for a pattern, one of which each match has.
	maxLiterals = 64
	// maxProgram bounds what a pattern may be, in instructions: a search costs at most as many steps for each character.
	maxProgram = 2000
	// leastSearched is how much of a text all patterns must be able to search within their budget, in characters.
	leastSearched = 64 << 10
)

// Problem is what is wrong with a rule.
type Problem struct {
	Rule    int
	Term    int // of the rule's terms, -1: it is about a pattern
	Pattern int // of its patterns, -1: it is about a term
	Summary string
	Detail  string // what to do
	Warning bool
}

// Compile makes a Set of rules, nil when one of the problems is not only a warning.
func Compile(all []Rule) (*Set, []Problem) {
	c := compiler{set: &Set{rules: all}, terms: make(map[string]place)}
	for i := range all {
		r := &all[i]
		c.set.allows = c.set.allows || r.Action == Allow
		for j, term := range r.Terms {
			c.rule, c.term, c.pattern = i, j, -1
			c.addTerm(r, term)
		}
		for j, expression := range r.Patterns {
			c.rule, c.term, c.pattern = i, -1, j
			c.addPattern(expression)
		}
	}
	if c.failed {
		return nil, c.problems
	}
	c.set.finder = newFinder(c.texts, c.set.needles, func(n *needle) bool { return !n.spelled })
	c.set.spelled = newFinder(c.texts, c.set.needles, func(*needle) bool { return true })
	return c.set, c.problems
}

type compiler struct {
	set                 *Set
	texts               [][]byte         // of the set's needles
	terms               map[string]place // by their folded form
	rule, term, pattern int              // at hand
	slow                int64            // steps of the patterns that are always looked for
	problems            []Problem
	failed              bool
}

type place struct{ rule, term int }

func (c *compiler) report(warning bool, summary, detail string) {
	c.failed = c.failed || !warning
	c.problems = append(c.problems, Problem{c.rule, c.term, c.pattern, summary, detail, warning})
}

func (c *compiler) fail(summary, format string, args ...any) {
	c.report(false, summary, fmt.Sprintf(format, args...))
}

func (c *compiler) addTerm(r *Rule, term string) {
	form := foldTerm(term)
	folded := form.text
	first, _ := utf8.DecodeRune(folded)
	last, _ := utf8.DecodeLastRune(folded)
	switch n := utf8.RuneCount(folded); {
	case n == 0:
		c.fail("Empty term", "It has nothing that can be seen. Write what is to be found, or remove it.")
		return
	case !strings.ContainsFunc(string(folded), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }):
		c.fail("Term without a letter", "Signs alone are in nearly every text. Write a word, or a pattern.")
		return
	case n < 2 && inWord(first):
		c.fail("Term too short", "A single letter is in nearly every text. Write a longer term, or a pattern.")
		return
	case n < 3 && r.Parts && inWord(first):
		c.fail("Term too short", "Inside of words, two letters are in nearly every text. Write at least three, or remove "+
			"whole_words = false.")
		return
	}
	key := string(folded) + "\x00" + string(form.joints)
	if other, taken := c.terms[key]; taken {
		c.fail("Second term of this kind", "Rule %q has it already as %q: case, blanks and look-alike signs do not count. "+
			"Remove one of them.", c.set.rules[other.rule].Name, c.set.rules[other.rule].Terms[other.term])
		return
	}
	c.terms[key] = place{c.rule, c.term}
	n := needle{rule: c.rule, pattern: -1, weight: weigh(folded)}
	for at, joint := range form.joints {
		if joint == hyphen {
			n.hyphens = append(n.hyphens, at)
		}
	}
	if !r.Parts {
		n.edges = edges{inWord(first), inWord(last)}
	}
	c.add(folded, n)
	if letters := bytes.Map(onlyLetters, folded); len(letters) < len(folded) && r.Action != Allow {
		n.spelled, n.hyphens = true, nil
		c.add(letters, n)
	}
}

// weigh counts the letters of a term.
func weigh(folded []byte) (n int) {
	for _, r := range string(folded) {
		switch {
		case unicode.In(r, withoutBlanks...) || hangul(r):
			n += 2
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			n++
		}
	}
	return n
}

func onlyLetters(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
		return r
	}
	return -1
}

func (c *compiler) add(text []byte, n needle) {
	c.set.longest = max(c.set.longest, len(text))
	c.texts = append(c.texts, text)
	c.set.needles = append(c.set.needles, n)
}

// harmless are texts that no rule means.
var harmless = [...]string{" ", "a", "e", "Z", "7", ".", "é", "你", "ok"}

func (c *compiler) addPattern(expression string) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		c.fail("Invalid pattern", "%s. Patterns are those of RE2: https://github.com/google/re2/wiki/Syntax", reason(err))
		return
	}
	if inner := nested(parsed, false); inner != nil {
		c.fail("Repetition inside a repetition", "%s repeats what is repeated around it. Most engines take exponential "+
			"time for such a pattern, so that it is refused everywhere: repeat once, as in \\w+ for (\\w+)+, or bound one of "+
			"them, as in {1,8}.", inner)
		return
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		c.fail("Invalid pattern", "%s.", reason(err))
		return
	}
	if len(program.Inst) > maxProgram {
		c.fail("Pattern too large", "It makes a program of %d steps, and may have %d: each character of a request can cost "+
			"as many. Split it, or lower the bounds of its repetitions.", len(program.Inst), maxProgram)
		return
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		c.fail("Invalid pattern", "%s.", reason(err))
		return
	}
	if re.MatchString("") {
		c.fail("Pattern of nothing", "It is found in an empty text, and so in every one. Demand at least one character: "+
			"+ in place of *, or no ?.")
		return
	}
	for _, text := range harmless {
		if re.MatchString(text) {
			c.fail("Pattern of everything", "It is found in %q, and so in nearly every text. Say more of what it is to find.",
				text)
			return
		}
	}
	p := pattern{rule: c.rule, re: re, steps: int64(len(program.Inst))}
	literals := literalsOf(parsed.Simplify())
	if p.always = len(literals) == 0; p.always {
		c.slow += p.steps
		c.report(true, "Slow pattern", fmt.Sprintf("No part of it is fixed, so that every text is searched for it, which "+
			"takes far longer than to look for a word. Where you can, demand a word of three letters or digits. Requests with "+
			"more than %d KiB of text are refused because of it, and of those before it.", patternBudget/c.slow>>10))
		if patternBudget/c.slow < leastSearched {
			c.fail("Slow patterns in all", "With this one, the patterns without a fixed part get through less than %d KiB of "+
				"a request in the time that they have. Demand a word of three letters or digits, or remove some.",
				leastSearched>>10)
		}
	}
	for _, literal := range literals {
		c.add([]byte(literal), needle{rule: c.rule, pattern: len(c.set.patterns)})
	}
	c.set.patterns = append(c.set.patterns, p)
}

// reason is what a parser says, without its own name.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	if strings.HasPrefix(text, "invalid or unsupported Perl syntax: `(?") ||
		strings.HasPrefix(text, "invalid escape sequence: `\\") {
		text += "; look-around and back-references take exponential time and are not known"
	}
	return text
}

// nested finds an endless repetition inside of another one, nil where there is none.
func nested(re *syntax.Regexp, inside bool) *syntax.Regexp {
	endless := re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && re.Max < 0
	if endless && inside {
		return re
	}
	for _, sub := range re.Sub {
		if found := nested(sub, inside || endless); found != nil {
			return found
		}
	}
	return nil
}

// literalsOf are parts of which each text that the expression matches has one, folded; nil where nobody knows any.
// They are letters and digits of ASCII: those are the same in a text's two forms, but for their case.
func literalsOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if s := longestPlain(re.Rune); s != "" {
			return []string{s}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literalsOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literalsOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if found := literalsOf(sub); found != nil && (best == nil || shortest(found) > shortest(best)) {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			found := literalsOf(sub)
			if found == nil || len(all)+len(found) > maxLiterals {
				return nil
			}
			all = append(all, found...)
		}
		return all
	default:
	}
	return nil
}

func shortest(list []string) int {
	n := len(list[0])
	for _, s := range list {
		n = min(n, len(s))
	}
	return n
}

// longestPlain is the longest run of ASCII's letters and digits in a literal, in small letters, "" where none is long
// enough.
func longestPlain(runes []rune) string {
	var best, run []byte
	for _, r := range append(runes[:len(runes):len(runes)], 0) {
		if r < unicode.MaxASCII && inWord(r) {
			run = append(run, byte(unicode.ToLower(r)))
			continue
		}
		if len(run) > len(best) {
			best = run
		}
		run = nil
	}
	if len(best) < leastLiteral {
		return ""
	}
	return string(best)
}
