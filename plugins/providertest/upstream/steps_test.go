package upstream

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// piecesOf cuts a text at random places.
func piecesOf(t *rapid.T, text string) []string {
	var pieces []string
	for text != "" {
		runes := []rune(text)
		n := rapid.IntRange(1, len(runes)).Draw(t, "piece")
		pieces = append(pieces, string(runes[:n]))
		text = string(runes[n:])
	}
	return pieces
}

func textOf(steps []Step) string {
	var text strings.Builder
	for _, s := range steps {
		if s.Do == StepText {
			text.WriteString(s.Text)
		}
	}
	return text.String()
}

func TestCountDoesNotDependOnThePieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab \n\té"))).Draw(t, "text")
		var m meter
		for _, piece := range piecesOf(t, text) {
			m.take(Text(piece), -1)
		}
		require.EqualValues(t, len(strings.Fields(text)), m.all)
	})
}

func TestWordsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab \n\té"))).Draw(t, "text")
		steps := Words(text)
		require.Equal(t, text, textOf(steps))
		for _, s := range steps {
			require.LessOrEqual(t, len(strings.Fields(s.Text)), 1)
		}
	})
}

func TestHonouredLimitsDoNotDependOnThePieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab "))).Draw(t, "text")
		stop := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab ")), 1, 3, -1), 0, 3).Draw(t, "stop")
		limit := rapid.Int64Range(1, 5).Draw(t, "limit")
		req := &Request{Stop: stop, MaxTokens: limit}
		r := Reply{Honour: Honour{Stop: true, MaxTokens: true}}
		for _, piece := range piecesOf(t, text) {
			r.Steps = append(r.Steps, Text(piece))
		}
		r.Steps = append(r.Steps, Finish("stop"))
		steps := prepare(r, req)
		got := textOf(steps)

		require.True(t, strings.HasPrefix(text, got))
		require.LessOrEqual(t, int64(len(strings.Fields(got))), limit)
		for _, s := range stop {
			require.NotContains(t, got, s)
		}
		finish := steps[len(steps)-1].Text
		if got == text {
			require.Equal(t, "stop", finish)
			return
		}
		stopped := false // a stop sequence is complete in the text, and the limit was not reached before it
		for _, s := range stop {
			stopped = stopped || strings.HasPrefix(text[len(got):], s)
		}
		require.Equal(t, stopped, finish == "stop", "%q of %q ended with %s", got, text, finish)
	})
}

func TestToolCallsEndAtTheLimit(t *testing.T) {
	t.Parallel()
	call := Call("c1", "find", `{"a": "b c"}`)
	call.Honour.MaxTokens = true
	steps := prepare(call, &Request{MaxTokens: 2})
	var kinds []StepKind
	for _, s := range steps {
		kinds = append(kinds, s.Do)
	}
	require.Equal(t, []StepKind{StepToolCall, StepArguments, StepFinish, StepUsage, StepDone}, kinds)
	require.Equal(t, "length", steps[2].Text)
}
