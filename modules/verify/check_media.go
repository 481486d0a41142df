package verify

import (
	"net/http"
	"regexp"
)

// Parts that are image or audio, as clients of the families write them.
const (
	imageURL   = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	chatAudio  = `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`
	inputImage = `{"type":"input_image","image_url":"data:image/png;base64,AAAA"}`
	imageBlock = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
)

// mediaCase is a place where media may stand.
type mediaCase struct{ ids, members string }

// media are requests of the shape with an image or audio part, by the place where it is.
func (s shape) media() []mediaCase {
	in := func(role, part string) string {
		kind := map[string]string{"chat": "text", "messages": "text", "responses": "input_text"}[s.Name]
		if s.Name == "responses" && role == "assistant" {
			kind = "output_text"
		}
		return `{"role":"` + role + `","content":[{"type":"` + kind + `","text":"What is this?"},` + part + `]}`
	}
	user := `{"role":"user","content":"Hello."}`
	turns := func(list string) string { return quote(s.input) + ":[" + list + "]" }
	switch s.Name {
	case "chat":
		return []mediaCase{
			{"MEDIA-04 GEN-14 ERR-14", turns(in("user", imageURL))},
			{"MEDIA-04 GEN-14", turns(in("user", chatAudio))},
			{"MEDIA-02", turns(in("system", imageURL) + "," + user)},
			{"MEDIA-03", turns(in("developer", imageURL) + "," + user)},
			{"MEDIA-05", turns(user + "," + in("assistant", imageURL) + "," + user)},
			{"MEDIA-06", turns(user + "," + chatCall + `,{"role":"tool","tool_call_id":"c1","content":[` + imageURL + `]}`)},
			{"MEDIA-06", turns(user + `,{"role":"tool","tool_call_id":"none","content":[` + imageURL + `]}`)},
		}
	case "responses":
		return []mediaCase{
			{"MEDIA-04 GEN-14 ERR-14", turns(in("user", inputImage))},
			{"MEDIA-04 GEN-14", turns(in("user", chatAudio))},
			{"MEDIA-03", turns(in("developer", inputImage) + "," + user)},
			{"MEDIA-05", turns(user + "," + in("assistant", inputImage) + "," + user)},
			{"MEDIA-09", turns(user + "," + respCall + `,{"type":"function_call_output","call_id":"c1","output":[` + inputImage +
				`]}`)},
		}
	}
	return []mediaCase{
		{"MEDIA-04 GEN-14", turns(in("user", imageBlock))},
		{"MEDIA-04 GEN-14", turns(in("user", chatAudio))},
		{"MEDIA-05", turns(user + "," + in("assistant", imageBlock) + "," + user)},
		{"MEDIA-07", `"system":[{"type":"text","text":"x"},` + imageBlock + `]`},
		{"MEDIA-08",
			turns(user + "," + msgCall +
				`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"x"},` +
				imageBlock + `]}]}`)},
	}
}

var mediaMessage = regexp.MustCompile(`(?i)image and audio input (are|is) not supported yet`)

func mediaChecks() []*Check {
	var checks []*Check
	for _, s := range shapes {
		form := " MEDIA-10 MEDIA-11 MEDIA-15 VER-10"
		if s.Name == "messages" {
			form += " MEDIA-13"
		} else {
			form += " MEDIA-12 ERR-06"
		}
		for _, m := range s.media() {
			checks = append(checks, check(m.ids+form, s.Name+" with "+m.members, func(t *T) {
				for _, mode := range []string{`"stream":false`, `"stream":true`, `"stream":false`} {
					a := t.ask(s, m.members, mode)
					t.refused(s, a, 400, unsupportedContent)
					message := str(at(a.JSON(t), "error", "message"))
					t.True(mediaMessage.MatchString(message), "the message is %q", message)
				}
			}))
		}
		checks = append(checks, check("GEN-14 ERR-14", "the same without media, on "+s.Name, func(t *T) {
			t.visit(placeOf(s.Path))
		}))
	}
	return checks
}

func profileChecks() []*Check {
	var checks []*Check
	for _, s := range shapes {
		for _, value := range []string{"cheap", "budget,max", "auto", ""} {
			ids := "PROF-18"
			if value == "" {
				ids = "PROF-19"
			}
			checks = append(checks, check(ids+" PROF-20", "x-service-profile: "+value+" on "+s.Name, func(t *T) {
				c := call{Path: s.Path, Body: t.body(s), Header: http.Header{"X-Service-Profile": {value}}}
				t.refused(s, t.do(c), 400, invalid)
			}))
		}
		checks = append(checks, check("PROF-19", "no x-service-profile on "+s.Name, func(t *T) { t.visit(placeOf(s.Path)) }))
	}
	return checks
}

func structChecks() []*Check {
	// A deployment may have turned structured outputs on; then the clauses of them off say nothing about it.
	off := func(t *T) {
		memo(t, "structured output", func() bool {
			if t.ask(chat, `"response_format":{"type":"text"}`).Status == 200 {
				t.Pendingf("structured output is turned on in this deployment")
			}
			return true
		})
	}
	const schema = `{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}`
	checks := values("STRUCT-01 CHAT-28 VER-08", chat, "response_format", unsupported, `{"type":"json_object"}`, schema,
		`"x"`, `{}`, `false`)
	checks = append(checks, values("STRUCT-02 CHAT-28 VER-08 ERR-13", chat, "response_format", unsupported,
		`{"type":"text"}`)...)
	checks = append(checks, values("STRUCT-02 STRUCT-03 VER-08", responses, "response_format", unsupported,
		`{"type":"text"}`)...)
	checks = append(checks, values("STRUCT-03 VER-08", responses, "response_format", unsupported, `{"type":"json_object"}`,
		`false`)...)
	checks = append(checks, values("STRUCT-01", chat, "response_format", "", `null`)...)
	checks = append(checks, values("STRUCT-03", responses, "response_format", "", `null`)...)
	checks = append(checks, values("STRUCT-04 RESP-27 VER-08", responses, "text", "",
		`{"format":{"type":"json_schema","name":"x","schema":{"type":"object"}}}`, `{"format":{"type":"nonsense"}}`, `5`)...)
	checks = append(checks, values("STRUCT-05 MSG-17 VER-08", messages, "output_format", "",
		`{"type":"json_schema","schema":{"type":"object"}}`, `7`)...)
	checks = append(checks, rows(
		row{"STRUCT-06 MSG-17 VER-08", messages,
			`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`, ""},
		row{"STRUCT-06 MSG-17", messages,
			`"output_config":{"format":{"type":"json_schema"}},"output_format":{"type":"json_schema"}`, ""},
	)...)
	for _, c := range checks {
		run := c.Run
		c.Run = func(t *T) { off(t); run(t) }
	}
	return checks
}
