package endpoint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDOfWhatIsLeftOfAReply(t *testing.T) {
	t.Parallel()
	for begin, want := range map[string]string{
		`{"id":"gen-1","object":"chat.comp`:                   "gen-1",
		"\n  \n" + `{"choices":[{"id":"no"}],"id":"gen-2","u`: "gen-2",
		"\xef\xbb\xbf" + `{"id":"gen-3"}`:                     "gen-3",
		`{"id":"gen-4`:                                        "",
		`{"id":7,"model":"m"}`:                                "",
		`{"id":`:                                              "",
		`{"id"`:                                               "",
		`{"error":{"id":"inner"},"x`:                          "",
		`["id","gen-5"]`:                                      "",
		`"id"`:                                                "",
		``:                                                    "",
		": COMMENT\n\ndata: {\"id\":\"gen-6\",\"obj": "gen-6",
		"event: ping\n\n":      "",
		`{"responseId":"r-1"}`: "",
	} {
		require.Equal(t, want, idOf([]byte(begin), "id"), begin)
	}
	require.Equal(t, "r-1", idOf([]byte(`{"id":"no","responseId":"r-1"}`), "responseId"))
	whole := `{"model":"m","usage":{"id":[1,{"id":"no"}]},"id":"gen-7","choices":[]}`
	known := strings.Index(whole, `"gen-7"`) + len(`"gen-7"`)
	for n := range len(whole) + 1 {
		want := ""
		if n >= known {
			want = "gen-7"
		}
		require.Equal(t, want, idOf([]byte(whole[:n]), "id"), whole[:n])
	}
}
