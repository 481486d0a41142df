package reply

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestObjectIsWhole: however it comes, an object is whole behind the brace that closes it, and nowhere else.
func TestObjectIsWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		``: false, `{}`: true, `{`: false, `{"a":{}`: false, `{"a":{}}`: true, `[1]`: false, `{"a":[1]}`: true,
		`{"a":"}`: false, `{"a":"}"`: false, `{"a":"}"}`: true, `{"a":"\"}`: false, `{"a":"\"}"}`: true,
		`{"a":"\\"}`: true, `{} `: true, `{}{}`: true, `{}[]`: false, `[{}]`: false, `"{}"`: false,
	} {
		var once, bytewise object
		once.add(text)
		for i := range len(text) {
			bytewise.add(text[i : i+1])
		}
		require.Equal(t, want, once.whole, text)
		require.Equal(t, once, bytewise, text)
		require.Equal(t, want, once.is(text), text)
		require.False(t, once.is(text+" "), text)
	}
}
