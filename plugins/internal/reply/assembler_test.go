package reply_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// made is a call as a reader has it, "name(id) arguments".
func made(t require.TestingT, pieces ...reply.Piece) (calls []string, err error) {
	var folded llm.Reply
	s := reply.New(chat, func(ev llm.Event) error { folded.Add(ev); return nil })
	for _, p := range pieces {
		if err := s.Fail(s.Piece(p)); err != nil {
			return nil, err
		}
	}
	if err := s.End(); err != nil {
		return nil, err
	}
	folded.Close()
	for _, c := range folded.Calls() {
		calls = append(calls, fmt.Sprintf("%s(%s) %s", c.Name, c.ID, c.Arguments.String()))
	}
	return calls, nil
}

// piece reads "index id name arguments", where a dash is nothing, and the arguments are JSON.
func piece(t require.TestingT, text string) reply.Piece {
	fields := strings.SplitN(text, " ", 4)
	p := reply.Piece{}
	if fields[0] != "-" {
		p.Index = fields[0]
	}
	if fields[1] != "-" {
		p.ID = fields[1]
	}
	if fields[2] != "-" {
		p.Name = fields[2]
	}
	if len(fields) > 3 {
		p.Arguments = view(t, fields[3])
	}
	return p
}

func TestPiecesOfCalls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ pieces, want []string }{
		"a name in two pieces":        {[]string{`0 a get_`, `0 - weather`, `0 - - "{}"`}, []string{"get_weather(a) {}"}},
		"the last with the arguments": {[]string{`0 a get_ ""`, `0 - weather "{}"`}, []string{"get_weather(a) {}"}},
		"a name that grows": {[]string{`0 a get_`, `0 a get_weather`, `0 - - "{}"`},
			[]string{"get_weather(a) {}"}},
		"a name in every piece":      {[]string{`0 a f "{\"q\""`, `0 a f ":1}"`}, []string{`f(a) {"q":1}`}},
		"the same without an id":     {[]string{`0 - f "{\"q\""`, `0 a f ":1}"`}, []string{`f(X) {"q":1}`}},
		"an empty object first":      {[]string{`0 a f "{}"`, `0 - - "{\"q\""`, `0 - - ":1}"`}, []string{`f(a) {"q":1}`}},
		"an object first":            {[]string{`0 a f {}`, `0 - - "{\"q\":1}"`}, []string{`f(a) {"q":1}`}},
		"null first":                 {[]string{`0 a f "null"`, `0 - - "{\"q\":1}"`}, []string{`f(a) {"q":1}`}},
		"an empty object twice":      {[]string{`0 a f "{}"`, `0 - - "{}"`}, []string{`f(a) {}`}},
		"an empty object in a text":  {[]string{`0 a f "\"{}\""`, `0 - - "{\"q\":1}"`}, []string{`f(a) {"q":1}`}},
		"an object in a text":        {[]string{`0 a f "\"{\\\"q\\\":1}\""`}, []string{`f(a) {"q":1}`}},
		"in pieces":                  {[]string{`0 a f "\"{\\\"q"`, `0 - - "\\\":1}\""`}, []string{`f(a) {"q":1}`}},
		"an object in a text's text": {[]string{`0 a f "\"\\\"{}\\\"\""`}, []string{`f(a) {}`}},
		"a text of nothing":          {[]string{`0 a f "\"\""`}, []string{`f(a) `}},
		"a text":                     {[]string{`0 a f "\"q\""`}, []string{`f(a) "q"`}},
		"half a text":                {[]string{`0 a f "\"q"`}, []string{`f(a) "q`}},
		"a text and more":            {[]string{`0 a f "\"q\""`, `0 - - "x"`}, []string{`f(a) "q"x`}},
		"null, said":                 {[]string{`0 a f "null"`}, []string{`f(a) null`}},
		"null":                       {[]string{`0 a f null`}, []string{`f(a) `}},
		"an array":                   {[]string{`0 a f []`}, []string{`f(a) []`}},
		"all of it once more": {[]string{`0 a f "{\"q\""`, `0 - - ":1}"`, `0 - - "{\"q\":1}"`},
			[]string{`f(a) {"q":1}`}},
		"another object": {[]string{`0 a f "{\"q\":1}"`, `0 - - "{\"q\":2}"`},
			[]string{`f(a) {"q":1}{"q":2}`}},
		"one index, no ids": {[]string{`0 - f "{\"q\":1}"`, `0 - g "{\"q\":2}"`}, []string{`f(X) {"q":1}`,
			`g(X) {"q":2}`}},
		"and one name": {[]string{`0 - f "{\"q\":1}"`, `0 - f "{\"q\":2}"`}, []string{`f(X) {"q":1}`,
			`f(X) {"q":2}`}},
		"one index, two ids": {[]string{`0 a f`, `0 b g "{\"q\":2}"`}, []string{`f(a) `, `g(b) {"q":2}`}},
		"ids that the indexes cross": {[]string{`0 a f`, `1 b g`, `0 b - "{\"q\":2}"`, `1 a - "{\"q\":1}"`},
			[]string{`f(a) {"q":1}`, `g(b) {"q":2}`}},
		"a new id in each piece":    {[]string{`0 a f`, `0 x - "{\"q\""`, `0 y - ":1}"`}, []string{`f(a) {"q":1}`}},
		"one id, no index":          {[]string{`- a f "{\"q\""`, `- a - ":1}"`}, []string{`f(a) {"q":1}`}},
		"and a name in every piece": {[]string{`- a f "{\"q\""`, `- a f ":1}"`}, []string{`f(a) {"q":1}`}},
		"one id for two calls": {[]string{`0 a f "{\"q\":1}"`, `1 a g "{\"q\":2}"`}, []string{`f(a) {"q":1}`,
			`g(a_2) {"q":2}`}},
		"and for three": {[]string{`0 a f`, `1 a g`, `2 a_2 h`}, []string{`f(a) `, `g(a_2) `, `h(a_2_2) `}},
		"and no index": {[]string{`- a f "{\"q\":1}"`, `- a g "{\"q\":2}"`}, []string{`f(a) {"q":1}`,
			`g(a_2) {"q":2}`}},
		"another index, the same id": {[]string{`0 a f`, `1 a - "{\"q\":1}"`}, []string{`f(a) {"q":1}`}},
		"another index, and no id":   {[]string{`0 a f "{\"q\""`, `1 - - ":1}"`}, []string{`f(a) {"q":1}`}},
		"nothing but names":          {[]string{`- - f "{\"q\":1}"`, `- - g`}, []string{`f(X) {"q":1}`, `g(X) `}},
		"the arguments first":        {[]string{`0 a - "{\"q\""`, `0 - f ":1}"`}, []string{`f(a) {"q":1}`}},
		"the arguments first, of a second": {[]string{`0 a f "{\"q\":1}"`, `1 b - "{\"q\":2}"`, `1 - g`},
			[]string{`f(a) {"q":1}`, `g(b) {"q":2}`}},
		"the arguments first, no id": {[]string{`0 a f "{\"q\":1}"`, `1 - - "{\"q\":2}"`, `1 - g`},
			[]string{`f(a) {"q":1}`, `g(X) {"q":2}`}},
		"one name, two indexes at a time": {[]string{`0 - f "{\"q\""`, `1 - f "{\"q\":2}"`, `0 - - ":1}"`},
			[]string{`f(X) {"q":1}`, `f(X) {"q":2}`}},
		"the arguments first, no index": {[]string{`- - - "{\"q\""`, `- - f ":1}"`}, []string{`f(X) {"q":1}`}},
	} {
		t.Run("GAP-84 "+name, func(t *testing.T) {
			t.Parallel()
			var pieces []reply.Piece
			for _, text := range tt.pieces {
				pieces = append(pieces, piece(t, text))
			}
			got, err := made(t, pieces...)
			require.NoError(t, err)
			require.Len(t, got, len(tt.want))
			for i := range got {
				if name, rest, ok := strings.Cut(tt.want[i], "(X)"); ok { // an id of ours
					require.Regexp(t, `^`+name+`\(call_[A-Z2-7]{26}\)`, got[i])
					got[i] = got[i][:len(name)] + "(X)" + got[i][strings.Index(got[i], ")")+1:]
					require.Equal(t, name+"(X)"+rest, got[i])
					continue
				}
				require.Equal(t, tt.want[i], got[i])
			}
		})
	}
	for name, pieces := range map[string][]string{
		"no name":                      {`0 a - "{}"`},
		"another name behind the call": {`0 a f "{\"q\""`, `0 a g ":1}"`},
		"no name before another call":  {`0 - - "{}"`, `1 b g "{}"`},
	} {
		t.Run("GAP-84 never renamed or dropped: "+name, func(t *testing.T) {
			t.Parallel()
			var all []reply.Piece
			for _, text := range pieces {
				all = append(all, piece(t, text))
			}
			_, err := made(t, all...)
			require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
		})
	}
	for name, tt := range map[string]struct{ pieces, tools, want []string }{
		"a call without arguments, and another": {[]string{`0 - f`, `0 - g "{\"q\":1}"`}, []string{"f", "g"},
			[]string{"f() ", `g() {"q":1}`}},
		"one that is said twice, and another": {[]string{`0 - f`, `0 - f`, `0 - g "{\"q\":1}"`}, []string{"f", "g"},
			[]string{"f() ", `g() {"q":1}`}},
		"three without arguments": {[]string{`- - f`, `- - g`, `- - f`}, []string{"f", "g"},
			[]string{"f() ", "g() ", "f() "}},
		"a name in two pieces":                     {[]string{`0 - f`, `0 - g`}, []string{"f", "fg"}, []string{"fg() "}},
		"a name in two pieces that are names, too": {[]string{`0 - f`, `0 - g`}, []string{"f", "g", "fg"}, []string{"fg() "}},
	} {
		t.Run("GAP-84 of known tools: "+name, func(t *testing.T) {
			t.Parallel()
			var calls []string
			s := reply.New(chat, func(ev llm.Event) error {
				switch ev.Kind {
				case llm.EventToolCall:
					calls = append(calls, ev.Name+"() ")
				case llm.EventToolArguments:
					calls[ev.Index] += ev.Text
				}
				return nil
			})
			s.Tools(tt.tools)
			for _, text := range tt.pieces {
				require.NoError(t, s.Piece(piece(t, text)))
			}
			require.NoError(t, s.End())
			require.Equal(t, tt.want, calls)
		})
	}
	t.Run("the first piece goes out at once", func(t *testing.T) {
		t.Parallel()
		var events []llm.Event
		s := reply.New(chat, func(ev llm.Event) error { events = append(events, ev); return nil })
		require.NoError(t, s.Piece(piece(t, `0 a f ""`)))
		require.NoError(t, s.Piece(piece(t, `0 - - "{"`)))
		require.Equal(t, []llm.Event{{Kind: llm.EventToolCall, ID: "a", Name: "f"},
			{Kind: llm.EventToolArguments, Text: "{"}}, events)
	})
}

// TestPlaceholders: GAP-84. What some send before the arguments, which follow in one piece or in two, is none of them.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	for _, before := range []string{`{}`, `null`, `""`, `"{}"`, `"null"`, " {} ", "\n\"\"\t"} {
		for _, real := range []string{`{"q":1}`, `"{\"q\":1}"`, " {\"q\":1}"} {
			for cut := range len(real) {
				var pieces []reply.Piece
				for _, text := range []string{before, real[:cut], real[cut:]} {
					pieces = append(pieces, piece(t, "0 a f "+strconv.Quote(text)))
				}
				got, err := made(t, pieces...)
				require.NoError(t, err)
				require.Len(t, got, 1)
				call, arguments, _ := strings.Cut(got[0], " ")
				require.Equal(t, []string{"f(a)", `{"q":1}`}, []string{call, strings.TrimSpace(arguments)}, "%s %s", before, real)
			}
		}
		for _, other := range []string{"1", "x", "[]"} {
			got, err := made(t, piece(t, "0 a f "+strconv.Quote(before)), piece(t, "0 - - "+strconv.Quote(other)))
			require.NoError(t, err)
			require.Equal(t, []string{"f(a) " + before + other}, got, "it is for whoever reads it to say what that is")
		}
	}
}

// TestTextsOfTexts: GAP-84. Arguments may be an object in a text of JSON in a text of JSON, three at most.
func TestTextsOfTexts(t *testing.T) {
	t.Parallel()
	text := `{"q":1}`
	for depth := range 5 {
		got, err := made(t, piece(t, "0 a f "+strconv.Quote(text)))
		require.NoError(t, err)
		want := `{"q":1}`
		if depth > 3 {
			want = text
		}
		require.Equal(t, []string{"f(a) " + want}, got)
		text = strconv.Quote(text)
	}
}

func TestWholeArguments(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ whole, piece, want string }{
		"alone": {`{"q":1}`, ``, `{"q":1}`}, "and pieces": {`{"q":1}`, `{"q":1}`, `{"q":1}`}, "a text": {`"{\"q\":1}"`, ``,
			`{"q":1}`},
		"twice a text": {`"\"{\\\"q\\\":1}\""`, ``, `{"q":1}`}, "a place holder": {`{}`, ``, ``}, "null": {`null`, ``, ``},
		"an array": {`[]`, ``, `[]`},
	} {
		t.Run("GAP-84 "+name, func(t *testing.T) {
			t.Parallel()
			var said string
			s := reply.New(chat, func(ev llm.Event) error {
				if ev.Kind == llm.EventToolArguments {
					said += ev.Text
				}
				return nil
			})
			c, err := s.Call("a", "f")
			require.NoError(t, err)
			c.Whole(view(t, tt.whole))
			require.NoError(t, c.Arguments(tt.piece))
			require.NoError(t, c.End())
			require.Equal(t, tt.want, said)
			require.NoError(t, s.Said("a"))
			require.NoError(t, c.End())
		})
	}
	t.Run("GAP-84 too late", func(t *testing.T) {
		t.Parallel()
		s := reply.New(chat, func(llm.Event) error { return nil })
		c, err := s.Call("a", "f")
		require.NoError(t, err)
		require.NoError(t, s.Said("a"))
		c.Whole(view(t, `{"q":1}`))
		require.Equal(t, llm.ErrProtocol, llm.KindOf(c.End()), "it would be empty")
	})
}

// cut cuts calls into pieces in one of the ways that upstreams have, which choose decides: choose(n) is below n.
func cut(t require.TestingT, calls []llm.ToolCall, choose func(n int) int) []reply.Piece {
	style := choose(3) // told apart by index, by id, by both
	left := make([][]reply.Piece, len(calls))
	for i, c := range calls {
		address := func(name, arguments string) reply.Piece {
			p := reply.Piece{Name: name}
			if style != 1 {
				p.Index = fmt.Sprint(3 + 2*i)
			}
			if style != 0 || name != "" {
				p.ID = c.ID
			}
			if arguments != "" {
				quoted, err := json.Marshal(arguments)
				require.NoError(t, err)
				p.Arguments = view(t, string(quoted))
			}
			return p
		}
		text := c.Arguments.String()
		add := func(name, arguments string) { left[i] = append(left[i], address(name, arguments)) }
		name := c.Name
		if n := choose(len(name)); n > 0 { // its last piece may bring the arguments
			add(name[:n], "")
			name = name[n:]
		}
		if choose(2) == 0 {
			add(name, "")
			name = ""
		}
		switch choose(5) {
		case 0:
			quoted, err := json.Marshal(text)
			require.NoError(t, err)
			text = string(quoted)
		case 1:
			add(name, "{}")
			name = ""
		case 2:
			add(name, `"{}"`)
			name = ""
		}
		whole := text
		for text != "" {
			n := 1 + choose(len(text))
			add(name, text[:n])
			name, text = "", text[n:]
		}
		if whole == c.Arguments.String() && choose(3) == 0 && whole != "{}" {
			add("", whole)
		}
		if name != "" {
			add(name, "")
		}
	}
	var pieces []reply.Piece
	for first := 0; first < len(left); { // a call may go on beside later ones once it has its arguments
		i := first + choose(min(2, len(left)-first))
		if i > first && pendingName(left[first]) {
			i = first
		}
		if len(left[i]) > 0 {
			pieces, left[i] = append(pieces, left[i][0]), left[i][1:]
		}
		for first < len(left) && len(left[first]) == 0 {
			first++
		}
	}
	return pieces
}

func pendingName(pieces []reply.Piece) bool {
	for _, p := range pieces {
		if p.Name != "" {
			return true
		}
	}
	return false
}

// requireSame checks that pieces fold to the calls that were cut.
func requireSame(t require.TestingT, calls []llm.ToolCall, choose func(n int) int) {
	var want []string
	for _, c := range calls {
		want = append(want, fmt.Sprintf("%s(%s) %s", c.Name, c.ID, c.Arguments.String()))
	}
	got, err := made(t, cut(t, calls, choose)...)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

var shapes = []string{
	`{"q":1}`,
	`{"a":{"b":[1,{"c":"}\""}]}}`,
	`{"x":"{\"q\":1}"}`,
	`{ "long" : "text with \\ and \" in it" }`,
	`{}`,
}

func TestCutsFoldToTheSame(t *testing.T) {
	t.Parallel()
	t.Run("GAP-84", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var calls []llm.ToolCall
			for i := range rapid.IntRange(1, 4).Draw(t, "calls") {
				calls = append(calls, llm.ToolCall{ID: fmt.Sprint("c", i), Name: rapid.SampledFrom([]string{"find", "get_weather"}).
					Draw(t, "name"), Arguments: llm.Plain(rapid.SampledFrom(shapes).Draw(t, "arguments"))})
			}
			requireSame(t, calls, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		})
	})
}

func FuzzCutsFoldToTheSame(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 3, 2, 1, 1, 0, 2, 7, 1, 2})
	f.Add([]byte{2, 5, 0, 2, 2, 4, 3, 1, 1, 0, 9, 8, 7})
	f.Fuzz(func(t *testing.T, choices []byte) {
		choose := func(n int) int {
			if len(choices) == 0 || n < 2 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}
		var calls []llm.ToolCall
		for i := range 1 + choose(3) {
			calls = append(calls, llm.ToolCall{ID: fmt.Sprint("c", i), Name: "get_weather",
				Arguments: llm.Plain(shapes[choose(len(shapes))])})
		}
		requireSame(t, calls, choose)
	})
}

// TestMostCalls: an upstream that makes calls without end is cut off.
func TestMostCalls(t *testing.T) {
	t.Parallel()
	s := reply.New(chat, func(llm.Event) error { return nil })
	for n := range 1024 {
		_, err := s.Call("", fmt.Sprint("f", n))
		require.NoError(t, err)
	}
	_, err := s.Call("", "f")
	require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
}
