package jsonview_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

const depth = 100

func parse(t require.TestingT, text string) jsonview.View {
	v, err := jsonview.Parse([]byte(text), depth)
	require.NoError(t, err, text)
	return v
}

func TestParseSaysWhereAndWhy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "the text ends too early at byte 0",
		" ":                      "the text ends too early at byte 1",
		`{"a":`:                  "the text ends too early at byte 5",
		`{"a"`:                   "the text ends too early at byte 4",
		`"a`:                     "the text ends too early at byte 2",
		`"a\`:                    "the text ends too early at byte 3",
		`"\u12`:                  "the text ends too early at byte 5",
		`"\u12x4"`:               `four hexadecimal digits have to follow \u at byte 5`,
		`"\x"`:                   "an escape in a string is not one of JSON's at byte 2",
		"\"a\nb\"":               "a control character in a string has to be escaped at byte 2",
		"\"12345678\x1f\"":       "a control character in a string has to be escaped at byte 9",
		`{a:1}`:                  "a name in double quotes is missing at byte 1",
		`{"a":1,}`:               "a name in double quotes is missing at byte 7",
		`{"a" 1}`:                "a colon is missing at byte 5",
		`[1 2]`:                  "a comma or a closing bracket is missing at byte 3",
		`[1}`:                    "a comma or a closing bracket is missing at byte 2",
		`[1,]`:                   "a value is missing or misspelled at byte 3",
		`[,1]`:                   "a value is missing or misspelled at byte 1",
		`nul`:                    "the text ends too early at byte 3",
		`trux`:                   "a value is missing or misspelled at byte 3",
		`{} x`:                   "there is something after the end of the JSON text at byte 3",
		`1 2`:                    "there is something after the end of the JSON text at byte 2",
		`01`:                     "there is something after the end of the JSON text at byte 1",
		`-x`:                     "a digit has to follow the minus sign at byte 1",
		`1.x`:                    "a digit has to follow the decimal point at byte 2",
		`1e+x`:                   "a digit has to follow the exponent's sign at byte 3",
		"\"\xff\"":               "the text is not valid UTF-8 at byte 1",
		"\"\xed\xa0\x80\"":       "the text is not valid UTF-8 at byte 1",
		"\xef\xbb\xbf{}":         "a value is missing or misspelled at byte 0",
		"{\"a\":1}\x00":          "there is something after the end of the JSON text at byte 7",
		strings.Repeat("[", 101): "arrays and objects are nested more than 100 deep at byte 100",
	} {
		_, err := jsonview.Parse([]byte(text), depth)
		var syntax *jsonview.SyntaxError
		require.ErrorAs(t, err, &syntax, text)
		require.Equal(t, want, syntax.Error(), text)
	}
}

func TestParseTakesTheDeepestNestingAllowed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("[", depth) + strings.Repeat("]", depth),
		strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		"[" + strings.Repeat("[],", 5*depth) + "[]]",
	} {
		_, err := jsonview.Parse([]byte(text), depth)
		require.NoError(t, err)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]jsonview.Kind{
		" null ": jsonview.Null, "true": jsonview.Bool, "-1": jsonview.Number, `""`: jsonview.String,
		"[ ]": jsonview.Array, "{ }": jsonview.Object,
	} {
		v := parse(t, text)
		require.Equal(t, kind, v.Kind(), text)
		require.Equal(t, strings.TrimSpace(text), string(v.Raw()))
		require.Equal(t, kind != jsonview.Null, v.Set())
	}
	var absent jsonview.View
	require.Equal(t, jsonview.Absent, absent.Kind())
	require.Equal(t, "absent", absent.Kind().String())
	require.False(t, absent.Set())
	require.Nil(t, absent.Raw())
	require.Equal(t, jsonview.Absent, absent.Get("a").Get("b").Kind())
}

func TestMembersAndElements(t *testing.T) {
	t.Parallel()
	v := parse(t, ` { "a" : [ 1 , "x]\"" , { } ] , "b\u0062":{"c":{"d":-2e3}},"a":"}" , "":null } `)
	require.Equal(t, `"}"`, string(v.Get("a").Raw()), "the last of a repeated name wins")
	require.Equal(t, "-2e3", string(v.Get("bb").Get("c").Get("d").Raw()))
	require.Equal(t, jsonview.Null, v.Get("").Kind())
	require.Equal(t, jsonview.Absent, v.Get("c").Kind())
	require.Equal(t, jsonview.Absent, v.Get("a").Get("x").Kind())
	var names []string
	for name, member := range v.Members() {
		names = append(names, strings.Clone(name))
		if len(names) == 1 {
			var elems []string
			for i, e := range member.Elems() {
				require.Len(t, elems, i)
				elems = append(elems, string(e.Raw()))
			}
			require.Equal(t, []string{"1", `"x]\""`, "{ }"}, elems)
		}
	}
	require.Equal(t, []string{"a", "bb", "a", ""}, names)
	require.Equal(t, []string{"a", "bb", "c", "d", "a", ""}, slices.Collect(v.Names()))
	for range v.Elems() {
		require.Fail(t, "an object has no elements")
	}
	for range v.Members() {
		break
	}
	for range v.Names() {
		break
	}
	for range parse(t, "[1,2]").Elems() {
		break
	}
}

func TestStr(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"plain"`:              "plain",
		`"\"\\\/\b\f\n\r\t"`:   "\"\\/\b\f\n\r\t",
		`"\u00e9\u4E2D"`:       "é中",
		`"\ud83d\ude00!"`:      "😀!",
		`"a\ud83d"`:            "a\uFFFD",
		`"\ud83da"`:            "\uFFFDa",
		`"\ud83d\n"`:           "\uFFFD\n",
		`"\ud83d\ud83d\ude00"`: "\uFFFD😀",
		`"\ude00\ud83d\u0041"`: "\uFFFD\uFFFDA",
		`"\\ud83d"`:            `\ud83d`,
		`"\u0000"`:             "\x00",
	} {
		s, ok := parse(t, text).Str()
		require.True(t, ok)
		require.Equal(t, want, s, text)
	}
	for _, text := range []string{"1", "null", "[]", "{}", "true"} {
		_, ok := parse(t, text).Str()
		require.False(t, ok, text)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"plain"`: "plain", `"\""`: `\"`, `"\\ud83d"`: `\\ud83d`, `"\u0041"`: `\u0041`, `"\ud83d\ude00"`: `\ud83d\ude00`,
		`""`:                  "",
		`"\\\ud83d\uDE00x\n"`: `\\\ud83d\uDE00x\n`,
	} {
		s, ok := parse(t, text).Text()
		require.True(t, ok)
		inside, ok := s.Quoted()
		require.True(t, ok, text)
		require.Equal(t, want, inside, text)
		plain, _ := parse(t, text).Str()
		require.Equal(t, plain, s.String())
	}
	for _, text := range []string{`"\ud83d"`, `"a\ude00"`, `"\ud83d\n"`, `"\ud83dx\ude00"`, `"\u0041\ud83d\ud83d\ude00"`,
		`"\\\ud83d\u0041"`,
	} {
		s, ok := parse(t, text).Text()
		require.True(t, ok)
		_, ok = s.Quoted()
		require.False(t, ok, "GAP-74: half a pair is no text that every upstream reads: %s", text)
		plain, _ := parse(t, text).Str()
		require.Contains(t, plain, "\uFFFD")
		require.Equal(t, plain, s.String())
	}
	for _, text := range []string{"1", "null", "[]", "{}", "true"} {
		_, ok := parse(t, text).Text()
		require.False(t, ok, text)
	}
	_, ok := jsonview.View{}.Text()
	require.False(t, ok)
}

func TestStrAfterJoinsASurrogatePairCutInTwo(t *testing.T) {
	t.Parallel()
	s, high, ok := parse(t, `"a\ud83d"`).StrAfter(0)
	require.True(t, ok)
	require.Equal(t, "a", s)
	s, high, _ = parse(t, `""`).StrAfter(high)
	require.Equal(t, "", s)
	s, high, _ = parse(t, `"\ude00b"`).StrAfter(high)
	require.Equal(t, "😀b", s)
	require.Zero(t, high)
	s, high, _ = parse(t, `"plain"`).StrAfter(0xD83D)
	require.Equal(t, "\uFFFDplain", s)
	require.Zero(t, high)
	s, high, _ = parse(t, `"\\ud83d"`).StrAfter(0xD83D)
	require.Equal(t, "\uFFFD\\ud83d", s, "a backslash, and no escape")
	require.Zero(t, high)
	s, high, _ = parse(t, `"\u0041\\\ud83d"`).StrAfter(0xD83D)
	require.Equal(t, "\uFFFDA\\", s)
	require.Equal(t, rune(0xD83D), high)
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"10": 10, "10.0": 10, "1e1": 10, "1E+1": 10, "100e-1": 10, "0.1e2": 10, "-0": 0, "-0.0": 0, "0e999999999999": 0,
		"-1.50e1": -15, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
		"922337203685477580700e-2": math.MaxInt64, "1e18": 1e18,
	} {
		n, ok := parse(t, text).Int()
		require.True(t, ok, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"1.5", "1e-1", "9223372036854775808", "1e19", "1e999999999999", "1e-999999999999", `"1"`,
		"null", "true",
		"1" + strings.Repeat("0", 400)} {
		_, ok := parse(t, text).Int()
		require.False(t, ok, text)
	}
	f, ok := parse(t, "-1.5e2").Float()
	require.True(t, ok)
	require.Equal(t, -150.0, f)
	for _, text := range []string{"1e400", `"1"`, "null"} {
		_, ok = parse(t, text).Float()
		require.False(t, ok, text)
	}
}

func TestBool(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]bool{"true": {true, true}, "false": {false, true}, "null": {}, "0": {}} {
		b, ok := parse(t, text).Bool()
		require.Equal(t, want, [2]bool{b, ok}, text)
	}
}

// value draws a JSON value as encoding/json sees it.
func value() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), toAny),
		rapid.Map(rapid.String(), toAny),
		rapid.Map(
			rapid.Float64Range(-1e30, 1e30),
			toAny,
		),
		rapid.Map(rapid.Map(rapid.Int16(), func(n int16) float64 { return float64(n) }), toAny),
	)
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(leaf, 0, 4), toAny),
		rapid.Map(rapid.MapOfN(rapid.String(), leaf, 0, 4), toAny),
		rapid.Map(rapid.MapOfN(rapid.String(), rapid.Map(rapid.SliceOfN(leaf, 0, 3), toAny), 0, 3), toAny))
}

func toAny[T any](v T) any { return v }

// tree walks a view into what encoding/json makes of the same text.
func tree(v jsonview.View) any {
	switch v.Kind() {
	case jsonview.Bool:
		b, _ := v.Bool()
		return b
	case jsonview.Number:
		f, _ := v.Float()
		return f
	case jsonview.String:
		s, _ := v.Str()
		return s
	case jsonview.Array:
		list := []any{}
		for _, e := range v.Elems() {
			list = append(list, tree(e))
		}
		return list
	case jsonview.Object:
		members := maps.Collect(v.Members())
		object := make(map[string]any)
		for name, member := range members {
			object[name] = tree(member)
		}
		return object
	}
	return nil
}

// texts returns the strings in a view in the form that Text gives them, in their order.
func texts(v jsonview.View) []llm.String {
	if s, ok := v.Text(); ok {
		return []llm.String{s}
	}
	var all []llm.String
	for _, e := range v.Elems() {
		all = append(all, texts(e)...)
	}
	for _, member := range v.Members() {
		all = append(all, texts(member)...)
	}
	return all
}

// TestTextOfALongText: whether a string has half of a surrogate pair in it is known from the one pass over a long
// text, and is found by a look at the string in a short one. They agree, string by string.
func TestTextOfALongText(t *testing.T) {
	t.Parallel()
	pieces := []string{"plain ", `\n`, `\"`, `\\`, `\u0041`, `\ud83d\ude00`, `\uD83D`, `\uDe00`, `\udfff`, `\ud7ff`,
		`\ue000`, "é", strings.Repeat("long ", 20)}
	rapid.Check(t, func(t *rapid.T) {
		inside := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6), func(s []string) string {
			return strings.Join(s, "")
		})
		var all []string
		for _, s := range rapid.SliceOfN(inside, 1, 5).Draw(t, "strings") {
			all = append(all, `"`+s+`"`, `{"`+s+`":"`+s+strings.Repeat("x", 64)+`"}`)
		}
		text := "[" + strings.Join(all, ",") + "]"
		long := parse(t, strings.Repeat(" ", 2048)+text)
		var alone []llm.String
		for _, one := range all {
			alone = append(alone, texts(parse(t, one))...)
		}
		require.Equal(t, alone, texts(long))
	})
}

func TestWalkingAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.MarshalIndent(
			value().Draw(t, "value"),
			"",
			rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"),
		)
		require.NoError(t, err)
		var want any
		require.NoError(t, json.Unmarshal(text, &want))
		v, err := jsonview.Parse(text, depth)
		require.NoError(t, err)
		require.Equal(t, want, tree(v))

		compact := jsonview.AppendCompact(nil, text)
		require.NotContains(t, string(compact), "\n")
		v, err = jsonview.Parse(compact, depth)
		require.NoError(t, err)
		require.Equal(t, want, tree(v))
	})
}

// TestWalkingALongText: of a long text an index is made, over which walks step, in whatever order they go.
func TestWalkingALongText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		long := rapid.Map(rapid.StringN(0, 40, -1), func(s string) any { return strings.Repeat(s, 20) })
		inner := rapid.OneOf(value(), long, rapid.Map(rapid.SliceOfN(rapid.OneOf(value(), long), 0, 5), toAny))
		for range rapid.IntRange(0, 10).Draw(t, "deeper") {
			inner = rapid.Map(rapid.MapOfN(rapid.StringN(0, 80, -1), inner, 0, 3), toAny)
		}
		text, err := json.Marshal(rapid.SliceOfN(inner, 1, 4).Draw(t, "values"))
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "blanks") {
			text = slices.Concat(bytes.Repeat([]byte{' '}, 2048), text)
		} else {
			text = slices.Concat([]byte(`["`+strings.Repeat("x", 2048)+`",`), text, []byte("]"))
		}
		var want any
		require.NoError(t, json.Unmarshal(text, &want))
		v, err := jsonview.Parse(text, depth)
		require.NoError(t, err)
		require.Equal(t, want, tree(v))
		require.Equal(t, want, tree(v))
		elements := make([]jsonview.View, 0, 4)
		for _, e := range v.Elems() {
			elements = append(elements, e)
		}
		for i, e := range slices.Backward(elements) {
			require.Equal(t, want.([]any)[i], tree(e))
		}
		raw := v.Raw()
		require.Len(t, raw, cap(raw), "who appends to it leaves the text alone")
	})
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	require.Equal(t, `"<a & \"b\">\\\n\r\t\u0000\u001f`+"\x7f"+`\u0085\u2028\u2029`+"é😀\uFFFD\"",
		string(jsonview.AppendString(nil, "<a & \"b\">\\\n\r\t\x00\x1f\x7f\u0085\u2028\u2029é😀\xff")))
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		quoted := jsonview.AppendString([]byte("x"), string(raw))
		require.True(t, utf8.Valid(quoted))
		s, ok := parse(t, string(quoted[1:])).Str()
		require.True(t, ok)
		require.Equal(t, string([]rune(string(raw))), s, "each invalid byte reads as U+FFFD")
	})
}

func TestAppendCompact(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a b":["`+`\u0085é\u2028–\u2029`+`\" x",1]}`,
		string(jsonview.AppendCompact(nil, []byte("{\"a b\" :\n[ \"\u0085é\u2028–\u2029\\\" x\",\t1 ] }"))))
}

// FuzzParse compares the verdict, and what a walk finds, with encoding/json.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e+3,"x\ud83d\ude00\n",null,true,false],"b":{}}`, `"\ud83d"`, `[[[]]]`, "1.0", ` {"a" : 1 , "a":2} `,
		`{"a":1}}`,
		"\"abcdefgh\x01\"", "\"\xc3\xa9\"", "-", "[1,,2]", `"\u12g4"`,
		"[1,\xff", "\"\xff",
		"{\"a\":[\"" + strings.Repeat("long ", 20) + "\",{\"b\":\"" +
			strings.Repeat(`\"é`, 30) + "\"}],\"c\":2}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsonview.Parse(text, depth)
		shifted, longErr := jsonview.Parse(slices.Concat(bytes.Repeat([]byte{' '}, 2048), text), depth)
		if err != nil {
			syntax, _ := errors.AsType[*jsonview.SyntaxError](err)
			require.Equal(t, &jsonview.SyntaxError{Offset: syntax.Offset + 2048, Reason: syntax.Reason}, longErr)
		}
		if err != nil && strings.Contains(err.Error(), "nested more than") {
			return // encoding/json goes deeper
		}
		require.Equal(t, json.Valid(text) && utf8.Valid(text), err == nil)
		if err != nil {
			return
		}
		var want any
		if json.Unmarshal(text, &want) == nil { // it refuses numbers beyond float64
			require.Equal(t, want, tree(v))
			require.Equal(t, want, tree(shifted), "with an index")
			require.Equal(t, texts(v), texts(shifted))
		}
		for range v.Names() {
		}
		v.Int()
	})
}

func BenchmarkParse(b *testing.B) {
	message := `{"role":"user","content":"` + strings.Repeat(
		"some ordinary text, a quote \\\" and a line\\n",
		200,
	) + `"},`
	chat := []byte(`{"model":"auto","messages":[` + strings.Repeat(message, 3000) + `{}]}`)
	code := strings.Repeat(`\tfor _, night := range book.Nights {\n\t\tif night.Ship == \"\" {\n\t\t\treturn `+
		`fmt.Errorf(\"reading %q: %w\", night.Name, err)\n\t\t}\n\t}\n`, 24)
	for name, text := range map[string][]byte{
		"chat":     chat,
		"code":     []byte("[" + strings.Repeat(`{"role":"tool","content":"`+code+`"},`, 500) + "1]"),
		"brackets": []byte(strings.Repeat("[", 999) + strings.Repeat("[],", 10_000_000) + "[]" + strings.Repeat("]", 999)),
		"numbers":  []byte("[" + strings.Repeat("12,", 10_000_000) + "1]"),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := jsonview.Parse(text, 1000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
