package predict

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFrameModel_file: what is written is read again, and nothing else.
func TestFrameModel_file(t *testing.T) {
	t.Parallel()
	m := frames()
	again, err := readFrameModel(m.Encode())
	require.NoError(t, err)
	require.Equal(t, m, again)
	_, err = readFrameModel(frameFile[1:])
	require.ErrorContains(t, err, "another size")
}

// TestUnframe is GAP-131: a question is told by where it stands, and not by its words alone: the same lines are a
// document before a label, and what is asked about without one.
func TestUnframe(t *testing.T) {
	t.Parallel()
	const passages = "[1] The gate is closed on Sundays.\n[2] Visitors report to the office.\n[3] Dogs stay outside.\n\n"
	for name, tc := range map[string][2]string{
		"passages before a label": {passages + "Question: Who painted the ceiling?", "Who painted the ceiling?"},
		"an instruction at the end": {"Who painted the ceiling?\n\nAnswer in one short sentence.",
			"Who painted the ceiling?"},
		"options go with their question": {"Which is a fish?\nA. cod\nB. cow\nC. crow",
			"Which is a fish?\nA. cod\nB. cow\nC. crow"},
		"code goes with its question": {"what does this print\n\nfor i in range(3):\n    print(i)",
			"what does this print\n\nfor i in range(3):\n    print(i)"},
	} {
		require.Equal(t, tc[1], strings.TrimSpace(separated(tc[0])), name)
	}
}

func TestUnlabel(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		rest           string
		labelled, bare bool
	}{
		"Question: why": {"why", true, false}, "Pregunta del usuario: por qué": {"por qué", true, false},
		"## Question": {"## Question", false, true}, "--- task ---": {"--- task ---", false, true},
		"--- end of task ---": {"--- end of task ---", false, false}, "    Input: n = 5": {"    Input: n = 5", false, false},
		"[1] a": {" a", false, false}, "a: b": {"a: b", false, false}, "": {"", false, false},
	} {
		rest, labelled, bare := unlabel([]byte(line))
		require.Equal(t, want.rest, string(rest), line)
		require.Equal(t, [2]bool{want.labelled, want.bare}, [2]bool{labelled, bare}, line)
	}
}
