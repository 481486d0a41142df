package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func compiled(t testing.TB, all ...Rule) *Set {
	set, problems := Compile(all)
	require.NotNil(t, set, "%v", problems)
	return set
}

// matches is what a set finds in messages.
func matches(s *Set, pieces ...string) []Hit {
	t := new(Search)
	t.Begin(s)
	for _, p := range pieces {
		t.Add(p)
		t.Break()
	}
	hits, _ := t.Hits()
	return hits
}

func search(s *Set, add func(*Search)) []Hit {
	t := new(Search)
	t.Begin(s)
	add(t)
	hits, _ := t.Hits()
	return hits
}

func names(hits []Hit) (names []string) {
	for _, h := range hits {
		names = append(names, h.Rule)
	}
	return names
}

// TestTerms: what a term is found in, whatever it wears (POL-01).
func TestTerms(t *testing.T) {
	t.Parallel()
	set := compiled(t, Rule{Name: "weapons", Category: "violence", Action: Block,
		Terms: []string{"pipe bomb", "Straße", "爆弾", "nitro", "бомба", "c-4"}},
		Rule{Name: "inside", Action: Flag, Terms: []string{"glycerin"}, Parts: true})
	for text, found := range map[string]bool{
		"how to make a pipe bomb":               true,
		"PIPE   BOMB":                           true,
		"a pipe\nbomb, please":                  true,
		"pipe\u00a0bomb":                        true,
		"pi\u200bpe bo\u00admb":                 true,
		"ｐｉｐｅ　ｂｏｍｂ":                             true,
		"𝐩𝐢𝐩𝐞 𝐛𝐨𝐦𝐛":                             true,
		"p̶i̶p̶e̶ b̶o̶m̶b̶":                     true,
		"pip\ufe0fe b\U000e0020omb":             true,
		`pipe \u0062omb`:                        true,
		"pіpe bоmb":                             true, // with letters of Cyrillic
		"n i t r o":                             true,
		"n.i.t.r.o":                             true,
		"n-i-t-r-o":                             true,
		"p i p e   b o m b":                     true,
		"STRASSE":                               true,
		"strasse":                               true,
		"あの爆弾です":                                true,
		"БОМБА":                                 true,
		"c\u20114":                              true,
		"a pipe and a bomb":                     false,
		"stovepipe bomb":                        false,
		"pipe bombastic":                        false,
		"nitrogen":                              false,
		"n i t r o g e n":                       false,
		"the pipe. Bomb":                        false,
		"бомбардир":                             false,
		"a b c d e f":                           false,
		strings.Repeat("pipe ", 1000) + "bombs": false,
	} {
		require.Equal(t, found, len(matches(set, text)) > 0, "%q", text)
	}
	require.Equal(t, []Hit{{"inside", "", Flag}}, matches(set, "Nitroglycerine"))
	require.False(t, Blocks(matches(set, "Nitroglycerine")))
	require.Equal(t, []string{"weapons", "inside"}, names(matches(set, "a glycerin", "pipe bomb", "nitro")),
		"each once")

	require.NotEmpty(t, search(set, func(s *Search) { s.Add("a pipe bo"); s.Add("mb") }), "parts are one text")
	require.NotEmpty(t, matches(set, "a pipe bo", "mb"), "two messages that go on")
	require.NotEmpty(t, matches(set, "a pipe", "bomb"))
	require.Empty(t, matches(set, "n i", "t r o"), "few letters come together by chance")
	require.NotEmpty(t, matches(set, "pipe\x00bomb"), "a zero is no end")
	require.NotEmpty(t, search(set, func(s *Search) { s.AddJSON(`{"q":"\nnitro","s":"\uD83D\uDE00"}`) }))
	var none *Set
	require.Empty(t, matches(none, "pipe bomb"))
	require.Empty(t, none.Rules())
}

func TestAllow(t *testing.T) {
	t.Parallel()
	set := compiled(t,
		Rule{Name: "weapons", Action: Block, Terms: []string{"bomb"}, Patterns: []string{`AKIA[0-9A-Z]{16}`}},
		Rule{Name: "cosmetics", Action: Allow, Terms: []string{"bath bomb", "bomb cyclone"},
			Patterns: []string{`AKIAIOSFODNN7EXAMPLE`}})
	for text, found := range map[string]bool{
		"a bath bomb":                               false,
		"a bath bomb and a bomb":                    true,
		"bath bomb cyclone":                         false,
		"a bath bombs":                              false,
		"b o m b":                                   true,
		"AKIAIOSFODNN7EXAMPLE":                      false,
		"AKIAIOSFODNN7EXAMPLF":                      true,
		"akiaiosfodnn7examplf":                      false, // a pattern says itself whether case counts
		"AKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPLF": true,
		"AK\u200bIAIOSFODNN7EXAMPLF":                true,
		strings.Repeat("AKIAIOSFODNN7EXAMPLE ", maxRetries+1): true, // so often it is not looked at
	} {
		require.Equal(t, found, len(matches(set, text)) > 0, "%q", text)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	set := compiled(t, Rule{Name: "keys", Action: Block, Patterns: []string{
		`(?i)secret[ _-]?(key|token)\b`, `(?:visa|mastercard) number`, `(abc|def)+x`, `\d{3}-\d{2}-\d{4}`,
	}})
	for text, found := range map[string]bool{
		"my SECRET_token":   true,
		"secret keyboard":   false,
		"mastercard number": true,
		"abcdefx":           true,
		"123-45-6789":       true,
		"12-345-6789":       false,
		"ſecret key":        true,
	} {
		require.Equal(t, found, len(matches(set, text)) > 0, "%q", text)
	}
	always := 0
	for _, p := range set.patterns {
		if p.always {
			always++
		}
	}
	require.Equal(t, 1, always, "the others are looked for by a part of them")
}

// TestProblems: rules that are wrong are refused with what to do.
func TestProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule Rule
		want string
	}{
		"nothing":             {Rule{Terms: []string{""}}, "Empty term"},
		"what nobody sees":    {Rule{Terms: []string{"\u200b \u00ad"}}, "Empty term"},
		"signs":               {Rule{Terms: []string{"..."}}, "Term without a letter"},
		"a letter":            {Rule{Terms: []string{"a"}}, "Term too short"},
		"two, inside":         {Rule{Terms: []string{"ab"}, Parts: true}, "Term too short"},
		"a term twice":        {Rule{Terms: []string{"bomb", "ＢＯＭＢ"}}, "Second term of this kind"},
		"exponential":         {Rule{Patterns: []string{`(a+)+$`}}, "Repetition inside a repetition"},
		"exponential, deep":   {Rule{Patterns: []string{`x(?:(\w{2,})|b)*y`}}, "Repetition inside a repetition"},
		"nothing matches":     {Rule{Patterns: []string{`bomb|`}}, "Pattern of nothing"},
		"a star":              {Rule{Patterns: []string{`x*`}}, "Pattern of nothing"},
		"everything":          {Rule{Patterns: []string{`.`}}, "Pattern of everything"},
		"any word":            {Rule{Patterns: []string{`\w`}}, "Pattern of everything"},
		"look-around":         {Rule{Patterns: []string{`(?=bomb)bomb`}}, "Invalid pattern"},
		"back-reference":      {Rule{Patterns: []string{`(bomb)\1`}}, "Invalid pattern"},
		"open":                {Rule{Patterns: []string{`(bomb`}}, "Invalid pattern"},
		"large":               {Rule{Patterns: []string{`bomb[a-z]{900}[0-9]{900}[a-z]{900}`}}, "Pattern too large"},
		"larger than allowed": {Rule{Patterns: []string{`(x{1000}){1000}`}}, "Invalid pattern"},
		"empty":               {Rule{Patterns: []string{``}}, "Pattern of nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.rule.Name, tc.rule.Action = "rule", Block
			set, problems := Compile([]Rule{tc.rule})
			require.Nil(t, set)
			require.NotEmpty(t, problems)
			require.Equal(t, tc.want, problems[0].Summary)
			require.NotEmpty(t, problems[0].Detail)
		})
	}
	set, problems := Compile([]Rule{{Name: "slow", Action: Flag, Patterns: []string{`\d\d\d`}}})
	require.NotNil(t, set)
	require.Len(t, problems, 1)
	require.True(t, problems[0].Warning)
	_, problems = Compile([]Rule{{Name: "one", Terms: []string{"Bomb"}},
		{Name: "two", Action: Allow, Terms: []string{"bomb"}}})
	require.Contains(t, problems[0].Detail, `Rule "one" has it already as "Bomb"`)
}

// TestMemory: whatever a text is made of, looking at it takes windows, and for patterns at most what was set aside
// for them.
func TestMemory(t *testing.T) {
	t.Parallel()
	const most = 384 << 10
	term := Rule{Name: "t", Action: Block, Terms: []string{"pipe bomb squad", "nitro"}}
	terms, both := compiled(t, term), compiled(t, term, Rule{Name: "p", Action: Flag, Patterns: []string{`secret key`}})
	require.Zero(t, terms.Reserve(1<<20))
	for _, unit := range []string{"a", "a ", "é", "\ufdfa", "\ufdfb", "\u3316", "\u2057", "\u0301", "a\u0301", "сор ",
		"с", "сo", "\U000e0062", "\U0001f1e7", "a\x00", "炸 ", "a\n", "b o m b\n", "&amp;", `\\u0062`, `\n`,
		"\ufb2c", "\U0001d15e", "n.", "-a",
		"Ⱥ", `"a",`, `"`, "™", "´", "`", "ᏣᎳᎩ ", "aB", "b.o.m x ab ",
		`\u0026`, `\u005cu005c`, "c\u0303", "øđñ ", "ΜΝ ", "\ue000"} {
		text := strings.Repeat(unit, (80<<10)/len(unit))
		for _, add := range []func(*Search, string){(*Search).Add, (*Search).AddJSON, (*Search).AddID} {
			var s Search
			s.Begin(terms)
			add(&s, text)
			s.Hits()
			require.LessOrEqual(t, s.Size(), most, "%q", unit)
			s.Begin(both)
			add(&s, text)
			s.Hits()
			require.LessOrEqual(t, int64(s.Size()), most+both.Reserve(len(text)), "%q", unit)
		}
	}
}

// TestBudget: patterns take so many steps, and what they did not search is said.
func TestBudget(t *testing.T) {
	t.Parallel()
	set, problems := Compile([]Rule{{Name: "numbers", Action: Block, Patterns: []string{`\d{9}[A-Z]{900}`}},
		{Name: "words", Action: Block, Terms: []string{"bomb"}}})
	require.NotNil(t, set)
	require.Contains(t, problems[0].Detail, "KiB of text are refused because of it")
	text := strings.Repeat("1 ", 160<<10) + "bomb"
	var s Search
	for range 2 {
		s.Begin(set)
		s.Add(text)
		hits, whole := s.Hits()
		require.False(t, whole)
		require.Equal(t, []string{"words"}, names(hits), "terms are found in all of it")
		s.Begin(set)
		s.Add("a bomb")
		_, whole = s.Hits()
		require.True(t, whole, "the budget is a request's")
	}
	var slow []string
	for i := range 50 {
		slow = append(slow, fmt.Sprintf(`\d{9}[A-Z]{%d}`, 190+i))
	}
	set, problems = Compile([]Rule{{Name: "slow", Action: Block, Patterns: slow}})
	require.Nil(t, set)
	require.Equal(t, "Slow patterns in all", problems[len(problems)-1].Summary)
}

// TestPieces: how a text comes in pieces does not matter, and nor does where its windows end.
func TestPieces(t *testing.T) {
	t.Parallel()
	set := compiled(t, Rule{Name: "terms", Action: Block, Terms: []string{"pipe bomb", "nitro"}},
		Rule{Name: "allowed", Action: Allow, Terms: []string{"pipe bomb game", "the nitro of it"}},
		Rule{Name: "pattern", Action: Block, Patterns: []string{`pipe\s+line\b`}})
	for _, fill := range []string{"it was a bright cold day ", "a ", "é", "сор ", "你", "aa-", "\ufdfa", "x"} {
		for _, found := range []string{"pipe bomb", "nitro", "PIPE-BO\x00MB", "pipe \n line",
			`\ud835\udc29ipe bom\u0026#98;`, "pipe b.o.m.b, well", "p-i-p-e bomb", "PipeBomb",
			"n\u0303i\u0303t\u0303r\u0303o\u0303"} {
			for at := window - 40; at < window+40; at += 17 {
				text := strings.Repeat(fill, at/len(fill)) + " " + found + " " + strings.Repeat(fill, window/len(fill))
				require.NotEmpty(t, set.Match(text), "%q behind %d bytes of %q", found, at, fill)
			}
		}
		for at := window - 40; at < window+40; at += 17 {
			text := strings.Repeat(fill, at/len(fill)) + " pipe bomb game, the nitro of it. " +
				strings.Repeat(fill, window/len(fill))
			require.Empty(t, set.Match(text), "behind %d bytes of %q", at, fill)
		}
	}
}

// TestFinderFindsAll compares rules with what strings.Contains says, over few letters, so that much overlaps.
func TestFinderFindsAll(t *testing.T) {
	t.Parallel()
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("abé ")), 0, 40, -1)
	rapid.Check(t, func(r *rapid.T) {
		var all []Rule
		for i, term := range rapid.SliceOfNDistinct(rapid.StringMatching(`[abé]{3,6}`), 1, 8, rapid.ID).Draw(r, "terms") {
			all = append(all, Rule{Name: fmt.Sprint(i), Action: Block, Terms: []string{term}, Parts: true})
		}
		set, problems := Compile(all)
		require.NotNil(r, set, "%v", problems)
		text := letters.Draw(r, "text")
		var want []string
		for _, rule := range all {
			if strings.Contains(text, rule.Terms[0]) {
				want = append(want, rule.Name)
			}
		}
		hits := matches(set, text)
		got := map[string]bool{}
		for _, n := range names(hits) {
			got[n] = true
		}
		for _, n := range want {
			require.True(r, got[n], "%q has %q", text, n)
		}
	})
}

// TestPatternsAreNotPassedOver compares patterns that are looked for by a part of them with the same ones alone.
func TestPatternsAreNotPassedOver(t *testing.T) {
	t.Parallel()
	for _, p := range []string{`(?i)ab{3}c`, `(abb|bab)a+`, `a(abab)?bbb`, `(?:abba){1,3}b`, `[ab]abba`} {
		set := compiled(t, Rule{Name: "p", Action: Block, Patterns: []string{p}})
		re := set.patterns[0].re
		rapid.Check(t, func(r *rapid.T) {
			text := rapid.StringOfN(rapid.SampledFrom([]rune("aabbABc ")), 0, 40, -1).Draw(r, "text")
			require.Equal(r, re.MatchString(text), len(matches(set, text)) > 0, "%s in %q", p, text)
		})
	}
}

// FuzzText: no text ends the process, and each of its forms is text.
func FuzzText(f *testing.F) {
	set := compiled(f, Rule{Name: "r", Action: Block, Terms: []string{"bomb", "pipe bomb"}, Patterns: []string{`key\d`}})
	for _, s := range []string{`\`, `\u`, `\ud83d\u`, "\xff\xfe", "ΑΒΓ а b", "b o m b", "\u0300\u0300", `\\u0062`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, add := range []func(*Search, string){(*Search).Add, (*Search).AddQuoted, (*Search).AddJSON, (*Search).AddID} {
			search(set, func(t *Search) { add(t, s) })
			found := search(set, func(t *Search) { t.Add(s); t.Break(); t.Add("bomb"); t.Break(); add(t, s) })
			require.NotEmpty(t, found, "%q", s)
		}
	})
}
