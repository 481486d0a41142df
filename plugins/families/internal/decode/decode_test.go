package decode_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
)

func view(t *testing.T, text string) jsonview.View {
	t.Helper()
	v, err := jsonview.Parse([]byte(text), 1000)
	require.NoError(t, err, text)
	return v
}

func TestHasMedia(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`[{"role":"user","content":[{"type":"image_url"}]}]`: true,
		`[{"type":"image"}]`: true,
		`[{"type":"message","role":"user","content":[{"type":"input_image"}]}]`:                     true,
		`[{"type":"function_call_output","output":[{"type":"input_text"},{"type":"input_audio"}]}]`: true,
		`[{"type":"computer_call_output","output":{"type":"computer_screenshot"}}]`:                 true,
		`[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}]`:         true,
		`[{"type":"output_audio"}]`: true,
		`[{"type":"document","source":{"type":"base64","media_type":"image/png"}}]`:       true,
		`[{"type":"document","source":{"type":"content","content":[{"type":"image"}]}}]`:  true,
		`[{"type":"document","source":{"type":"content","content":[{"type":"text"}]}}]`:   false,
		`[{"type":"document","source":{"type":"content","content":"an image"}}]`:          false,
		`{"type":"content","content":[{"type":"image_url"}]}`:                             true,
		`{"type":"content","content":"image_url"}`:                                        false,
		`[{"type":"image_generation_call","result":"AAAA"}]`:                              true,
		`[{"type":"code_interpreter_call","outputs":[{"type":"logs"},{"type":"image"}]}]`: true,
		`[{"type":"code_interpreter_call","outputs":[{"type":"logs","logs":"image"}]}]`:   false,
		`[{"type":"custom_tool_call_output","output":[{"type":"input_image"}]}]`:          true,
		`[{"role":"assistant","images":[{"type":"image_url"}]}]`:                          true,
		`[{"role":"assistant","images":[]}]`:                                              false,
		`[{"type":"input_file","file_data":"DATA:audio\/wav;base64,"}]`:                   true,
		`[{"type":"file","file":{"mime_type":"\u0069mage/png"}}]`:                         true,
		`[{"type":"text","type":"image"}]`:                                                true,
		`[{"role":"assistant","audio":{"id":"a"}}]`:                                       true,
		`[{"audio":{"id":"a"},"type":null}]`:                                              true,

		`"image"`: false, `5`: false, `null`: false, `[]`: false, `["image",1]`: false, `{}`: false,
		`[{"role":"assistant","audio":null}]`: false, `[{"audio":{},"type":"text"}]`: false,
		`[{"type":"image","type":"text"}]`:                                                false,
		`[{"type":"document","source":{"type":"base64","media_type":"application/pdf"}}]`: false,
		`[{"type":"input_file","file_data":"data:application/pdf;base64,image/"}]`:        false,
		`[{"type":"text","media_type":"image/png"}]`:                                      false,
		`[{"type":"tool_use","input":{"type":"image","content":[{"type":"image"}]}}]`:     false,
		`[{"type":"function_call","arguments":"{\"type\":\"image\"}"}]`:                   false,
		`[{"type":"function_call_output","output":"{\"type\":\"image\"}"}]`:               false,
	} {
		require.Equal(t, want, decode.HasMedia(view(t, text)), text)
	}
	require.False(t, decode.HasMedia(jsonview.View{}))
}

func TestHasMediaLooksAtHostileNestingBriefly(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[{"content":`, 400) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}]", 400)
	require.False(t, decode.HasMedia(view(t, deep)))
}

// A look at the whole object for each of these members would be 100 GB to read.
func TestHasMediaReadsAnObjectAFixedNumberOfTimes(t *testing.T) {
	t.Parallel()
	members := strings.Repeat(`,"audio":{}`, 100_000)
	require.False(t, decode.HasMedia(view(t, `[{"type":"text"`+members+`}]`)))
	require.True(t, decode.HasMedia(view(t, `[{"role":"assistant"`+members+`}]`)))
}

func TestCheckPrefersWhatIsNotOffered(t *testing.T) {
	t.Parallel()
	var check decode.Check
	require.Nil(t, check.Err())
	a := check.Field("a", view(t, `[{"b":1}]`))
	for i, e := range a.Elems() {
		element := a.Elem(i, e)
		b := element.Get("b")
		require.Equal(t, "a[0].b", b.Path())
		b.Invalid("is wrong")
		b.Invalid("is wrong again")
	}
	require.Equal(t, families.Invalid("a[0].b is wrong."), check.Err())
	a.Unsupported("is not offered")
	a.Unsupported("is still not offered")
	require.Equal(t, families.Unsupported("a is not offered."), check.Err())
}

func TestUnitTemperature(t *testing.T) {
	t.Parallel()
	var check decode.Check
	require.Equal(t, 1.0, *check.Field("temperature", view(t, "1")).UnitTemperature())
	require.Nil(t, check.Err())
	require.Nil(t, check.Field("temperature", view(t, "1.01")).UnitTemperature())
	require.Equal(t, families.Invalid("temperature must be a number from 0 to 1."), check.Err())
}

func TestStopListTakesNoString(t *testing.T) {
	t.Parallel()
	var check decode.Check
	require.Equal(t, []string{"a"}, check.Field("stop_sequences",
		view(t, `["a",""]`)).StopList("must be an array of strings"))
	require.Nil(t, check.Err())
	require.Nil(t, check.Field("stop_sequences", view(t, `"a"`)).StopList("must be an array of strings"))
	require.Equal(t, families.Invalid("stop_sequences must be an array of strings."), check.Err())
}
