package contracttest

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parts that are image or audio, as clients of the families write them.
const (
	imageURL    = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	chatAudio   = `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`
	inputImage  = `{"type":"input_image","image_url":"https://x.example/a.png"}`
	imageBlock  = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
	screenshot  = `{"type":"computer_screenshot","image_url":"https://x.example/a.png"}`
	imageInFile = `{"type":"document","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
)

func TestMediaIsRefused(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	const user = `{"role":"user","content":"PROMPT"}`
	said := func(role, part string) string {
		return `{"role":"` + role + `","content":[{"type":"text","text":"PROMPT"},` + part + `]}`
	}
	chatCall := `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f",` +
		`"arguments":"{}"}}]}`
	toolUse := `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`
	for _, tc := range []struct{ name, shape, members string }{
		{"MEDIA-02 system", "chat", `"messages":[` + said("system", imageURL) + `,` + user + `]`},
		{"MEDIA-02 system audio", "chat", `"messages":[` + said("system", chatAudio) + `,` + user + `]`},
		{"MEDIA-02 system", "responses", `"input":[` + said("system", inputImage) + `,` + user + `]`},
		{"MEDIA-02 system turn", "messages", `"messages":[` + user + `,` + said("system", imageBlock) + `]`},
		{"MEDIA-03 developer", "chat", `"messages":[` + said("developer", imageURL) + `,` + user + `]`},
		{"MEDIA-03 developer audio", "responses", `"input":[` + said("developer", chatAudio) + `,` + user + `]`},
		{"MEDIA-04 GEN-14 user image", "chat", `"messages":[` + said("user", imageURL) + `]`},
		{"MEDIA-04 GEN-14 user audio", "chat", `"messages":[` + said("user", chatAudio) + `]`},
		{"MEDIA-04 GEN-14 user image", "responses", `"input":[` + said("user", inputImage) + `]`},
		{"MEDIA-04 GEN-14 user audio", "responses", `"input":[` + said("user", chatAudio) + `]`},
		{"MEDIA-04 MSG-07 GEN-14 user image", "messages", `"messages":[` + said("user", imageBlock) + `]`},
		{"MEDIA-04 GEN-14 user audio", "messages", `"messages":[` + said("user", chatAudio) + `]`},
		{"MEDIA-04 image alone", "messages", `"messages":[{"role":"user","content":[` + imageBlock + `]},` + user + `]`},
		{"MEDIA-05 assistant", "chat", `"messages":[` + user + `,` + said("assistant", imageURL) + `,` + user + `]`},
		{"MEDIA-05 assistant audio by reference", "chat",
			`"messages":[` + user + `,{"role":"assistant","content":null,"audio":{"id":"audio_1"}},` + user + `]`},
		{"MEDIA-05 assistant", "responses", `"input":[` + user + `,` + said("assistant",
			`{"type":"output_audio","data":"AAAA"}`) + `,` + user + `]`},
		{"MEDIA-05 assistant", "messages", `"messages":[` + user + `,` + said("assistant", imageBlock) + `,` + user + `]`},
		{"MEDIA-06 tool", "chat", `"messages":[` + user + `,` + chatCall + `,{"role":"tool","tool_call_id":"c1","content":[` +
			imageURL + `]}]`},
		{"MEDIA-06 orphan tool", "chat", `"messages":[` + user + `,{"role":"tool","tool_call_id":"nope","content":[` +
			imageURL + `]}]`},
		{"MEDIA-07 system array", "messages", `"system":[{"type":"text","text":"x"},` + imageBlock + `]`},
		{"MEDIA-08 tool_result", "messages", `"messages":[` + user + `,` + toolUse +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"x"},` +
			imageBlock + `]}]}]`},
		{"MEDIA-08 orphan tool_result", "messages",
			`"messages":[{"role":"user","content":[{"type":"text","text":"PROMPT"},{"type":"tool_result","tool_use_id":"nope",` +
				`"content":[` + imageBlock + `]}]}]`},
		{"MEDIA-09 function_call_output", "responses",
			`"input":[` + user +
				`,{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output",` +
				`"call_id":"c1","output":[` + inputImage + `]}]`},
		{"MEDIA-09 orphan function_call_output", "responses",
			`"input":[` + user + `,{"type":"function_call_output","call_id":"nope","output":[` + inputImage + `]}]`},
		{"MEDIA-09 computer_call_output", "responses",
			`"input":[` + user + `,{"type":"computer_call_output","call_id":"c1","output":` + screenshot + `}]`},
		{"MEDIA-10 last of many turns", "chat", `"messages":[` + user + `,{"role":"assistant","content":"a"},` + user +
			`,{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"text","text":"1"},{"type":"text",` +
			`"text":"2"},` + imageURL + `]}]`},
		{"MEDIA-10 first of many turns", "responses",
			`"input":[` + said("user", inputImage) + `,{"role":"assistant","content":"a"},` + user + `]`},
		{"MEDIA-10 an image in a document", "messages", `"messages":[` + said("user", imageInFile) + `]`},
		{"MEDIA-10 GAP-120 a prediction", "chat", `"prediction":{"type":"content","content":[{"type":"text","text":"x"},` +
			imageURL + `]}`},
		{"MEDIA-10 GAP-120 images of an answer", "chat",
			`"messages":[` + user + `,{"role":"assistant","content":"x","images":[` + imageURL + `]},` + user + `]`},
		{"MEDIA-10 GAP-120 instructions", "responses", `"instructions":[` + said("developer", inputImage) + `]`},
		{"MEDIA-10 GAP-120 a variable of a prompt", "responses",
			`"prompt":{"id":"p","variables":{"a":"x","b":` + inputImage + `}}`},
		{"MEDIA-10 GAP-120 image_generation_call", "responses",
			`"input":[` + user + `,{"type":"image_generation_call","id":"ig_1","status":"completed","result":"AAAA"}]`},
		{"MEDIA-10 GAP-120 code_interpreter_call", "responses",
			`"input":[` + user +
				`,{"type":"code_interpreter_call","id":"ci_1","code":"x","outputs":[{"type":"logs","logs":"x"},{"type":"image",` +
				`"url":"https://x.example/a.png"}]}]`},
		{"MEDIA-10 GAP-120 custom_tool_call_output", "responses",
			`"input":[` + user + `,{"type":"custom_tool_call_output","call_id":"c1","output":[` + inputImage + `]}]`},
		{"MEDIA-10 GAP-120 an image among a document's content", "messages",
			`"messages":[` + said("user", `{"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"},`+
				imageBlock+`]}}`) + `]`},
		{"MEDIA-10 GAP-120 a document with an image in a tool_result", "messages",
			`"messages":[` + user + `,` + toolUse +
				`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"document",` +
				`"source":{"type":"content","content":[` + imageBlock + `]}}]}]}]`},
		{"MEDIA-10 beside other faults", "chat", `"n":2,"stop":7,"messages":[` + said("user", imageURL) + `]`},
	} {
		sh := shapeOf(tc.shape)
		t.Run("MEDIA-01 MEDIA-10 MEDIA-11 MEDIA-12 MEDIA-13 MEDIA-14 MEDIA-15 ERR-06 ERR-14 VER-10 "+tc.name+" "+tc.shape,
			func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				for range 2 { // a retry fails again
					for _, mode := range modes {
						a := c.Ask(sh, tc.members, mode.Field)
						requireError(t, sh, a, 400, "unsupported_content")
						require.Regexp(t, regexp.MustCompile(`(?i)image and audio input (are|is) not supported yet`),
							a.At(t, "error", "message"))
					}
				}
				c.RequireUntouched(t)
			})
	}
	t.Run("GEN-14 MEDIA-10 what is no media runs", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			c := g.rich(t)
			turn := map[string]string{"chat": `"messages":[{"role":"user","content":[{"type":"text","text":"PROMPT"}]}]`,
				"responses": `"input":[{"role":"user","content":[{"type":"input_text","text":"PROMPT"}]}]`,
				"messages":  `"messages":[{"role":"user","content":[{"type":"text","text":"PROMPT"}]}]`}[sh.Name]
			require.Equal(t, "Hello", outcomeOf(t, sh, c.Ask(sh, turn)).Text, "the same request without the part")
			// A prediction of text, and a template's variables, are ignored like all that is not listed.
			outcomeOf(t, sh, c.Ask(sh, turn, `"prediction":{"type":"content","content":"an image_url"}`,
				`"prompt":{"id":"p","variables":{"a":"input_image"}}`))
			// Words and tool schemas may speak of images.
			outcomeOf(t, sh, c.Post(sh.Path, sh.Body(`PROMPT {\"type\":\"image\"}`,
				tools(sh, function{Name: "draw", Schema: `{"type":"object","properties":{"image":{"type":"string"}},"example":[` +
					imageBlock + `]}`}))))
		}
	})
}
