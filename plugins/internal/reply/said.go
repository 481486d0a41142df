package reply

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

const (
	maxParts = 16  // that a refusal is read as: what services send is one, or a few in one another
	maxSaid  = 512 // bytes of a message that are looked at
	maxInner = 6   // errors in one another
)

// refusalBody is what an upstream says in a refusal, whatever form its body has.
type refusalBody struct {
	status int      // of the reply, or what the body says where that is a 2xx
	parts  []part   // the innermost error first: a wrapper says that there was one
	names  []string // the words as they were sent, for the operator
	param  string
	wait   time.Duration
	daily  bool // a quota that is used up until the next day
	judged bool // it says what of the input was flagged
	coded  bool // its status says nothing, see minimax
}

// part is one error object, or one text.
type part struct{ words, texts []string }

// readBody reads a body: an object or an array, an event stream of one event, or plain text. A page says nothing.
func (s *refusalBody) readBody(body []byte) {
	body = bytes.TrimSpace(body)
	if s.readJSON(body) {
		return
	}
	if bytes.HasPrefix(body, []byte("<")) {
		return
	}
	for line := range bytes.Lines(body) {
		for _, field := range []string{"data:", "error:"} {
			if value, ok := bytes.CutPrefix(line, []byte(field)); ok && s.readJSON(bytes.TrimSpace(value)) {
				return
			}
		}
	}
	if len(body) > 0 && body[0] != '{' && body[0] != '[' {
		s.parts = append(s.parts, part{texts: []string{clip(string(body))}})
	}
}

// readJSON is false for what is no object and no array.
func (s *refusalBody) readJSON(text []byte) bool {
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return false
	}
	root, err := jsonview.Parse(text, maxDepth)
	if err == nil {
		s.object(root, maxInner)
	}
	return err == nil
}

// object reads an error object and what it wraps.
func (s *refusalBody) object(v jsonview.View, depth int) {
	if depth == 0 || len(s.parts) >= maxParts {
		return
	}
	var p part
	switch v.Kind() {
	case jsonview.Array:
		for i, each := range v.Elems() {
			if i < maxParts {
				s.object(each, depth-1)
			}
		}
		return
	case jsonview.String:
		s.text(&p, v, depth)
	case jsonview.Object:
		for name, member := range v.Members() {
			s.member(&p, name, member, depth)
		}
	}
	if len(p.words)+len(p.texts) > 0 {
		s.parts = append(s.parts, p)
	}
}

// member reads a member of an error object. What repeats the request is not looked at.
func (s *refusalBody) member(p *part, name string, v jsonview.View, depth int) {
	switch strings.ToLower(name) {
	case "code", "type", "status", "reason", "error_type", "error_code", "errorcode", "__type", "statuscode",
		"status_code", "httpcode", "http_code":
		s.name(p, v)
	case "message", "msg", "detail", "error_message", "errormessage", "error_description", "status_msg":
		s.text(p, v, depth)
	case "error", "errors", "innererror", "inner_error":
		if v.Kind() == jsonview.String {
			s.text(p, v, depth)
			return
		}
		s.object(v, depth-1)
	case "param":
		if s.param == "" {
			s.param, _ = v.Str()
		}
	case "metadata":
		s.metadata(v, depth)
	case "details":
		s.details(p, v)
	case "response": // of an event of the responses family
		s.object(v.Get("error"), depth-1)
	case "promptfeedback": // Gemini's
		s.judged = s.judged || v.Get("blockReason").Set()
	case "base_resp": // MiniMax's; its codes are others' as well
		if code, ok := v.Get("status_code").Int(); ok && code != 0 {
			s.minimax(p, strconv.FormatInt(code, 10))
		}
	}
}

// name reads a word for machines. A number may be a status.
func (s *refusalBody) name(p *part, v jsonview.View) {
	word, ok := v.Str()
	if !ok && v.Kind() == jsonview.Number {
		word = string(v.Raw())
	}
	if word == "" {
		return
	}
	if n := number(word); 400 <= n && n < 600 {
		if s.status/100 == 2 || s.status == 0 {
			s.status = n
		}
		return
	}
	if len(s.names) < maxParts && ok {
		s.names = append(s.names, word)
	}
	if len(word) <= maxErrorWord*2 {
		p.words = append(p.words, plain(word))
	}
}

func number(text string) (n int) {
	if len(text) != len("400") {
		return 0
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// text reads a message: a text, the JSON of another error, or FastAPI's list of what is wrong with a body.
func (s *refusalBody) text(p *part, v jsonview.View, depth int) {
	text, ok := v.Str()
	if !ok {
		s.object(v, depth-1)
		return
	}
	words, rest := unwrap(clip(text))
	p.words = append(p.words, words...)
	if m := minimaxCode.FindStringSubmatch(rest); m != nil {
		s.minimax(p, m[1])
	}
	if len(rest) > 0 && (rest[0] == '{' || rest[0] == '[') {
		whole := text[strings.Index(text, rest[:1]):]
		if root, err := jsonview.Parse(innerJSON(whole), maxDepth); err == nil {
			s.object(root, depth-1)
			return
		}
	}
	p.texts = append(p.texts, rest)
}

// metadata reads that of OpenRouter: the error of the service behind it as a text, or why the input was flagged
// (openrouter.ai/docs, "Errors and Debugging").
func (s *refusalBody) metadata(v jsonview.View, depth int) {
	if raw := v.Get("raw"); raw.Set() {
		s.object(raw, depth-1)
	}
	reasons := v.Get("reasons")
	s.judged = s.judged || v.Get("flagged_input").Set() || reasons.Kind() == jsonview.Array
}

// details reads those of a google.rpc.Status (cloud.google.com/apis/design/errors).
func (s *refusalBody) details(p *part, v jsonview.View) {
	for _, detail := range v.Elems() {
		kind, _ := detail.Get("@type").Str()
		_, kind, _ = strings.Cut(kind, "google.rpc.")
		switch kind {
		case "RetryInfo":
			delay, _ := detail.Get("retryDelay").Str()
			s.waits(delay)
		case "QuotaFailure":
			for _, violation := range detail.Get("violations").Elems() {
				id, _ := violation.Get("quotaId").Str()
				s.daily = s.daily || strings.Contains(id, "PerDay")
			}
		case "BadRequest":
			for _, violation := range detail.Get("fieldViolations").Elems() {
				s.param, _ = violation.Get("field").Str()
			}
		default: // ErrorInfo, also without its type
			s.name(p, detail.Get("reason"))
			limit, _ := detail.Get("metadata").Get("quota_limit").Str()
			s.daily = s.daily || strings.Contains(limit, "PerDay")
		}
	}
}

// wrapper is what a proxy puts before the message of another service: `litellm.BadRequestError: OpenAIException - `,
// `Text-completion-openaiException - `,
// `Error code: 400 - `, `<400> InternalError.Algo.InvalidParameter: ` of DashScope, `Invalid request: ` of Moonshot,
// `Input validation error: ` of TGI.
var wrapper = regexp.MustCompile(`^(?:` +
	`(?:[A-Za-z]{1,20}[.-]){0,3}([A-Za-z]{1,40}(?:Error|Exception))(?:: | - )` +
	`|<\d{3}> (?:([A-Za-z.]{3,60}): )?` +
	`|[Ee]rror code: \d{3} - ` +
	`|\d{3}: ` +
	`|(?i:invalid request|bad request|input validation error|authentication error|invalid params|` +
	`the model returned the following errors|error|api error)[:,] ` +
	`)`)

// unwrap takes off what wraps a message, and returns the words that it consists of.
func unwrap(text string) (words []string, rest string) {
	text = strings.TrimSpace(text)
	for range maxInner {
		m := wrapper.FindStringSubmatch(text)
		if m == nil {
			break
		}
		for _, word := range m[1:] {
			if word != "" {
				words = append(words, plain(word))
			}
		}
		text = strings.TrimSpace(text[len(m[0]):])
	}
	return words, text
}

// minimax reads a code of MiniMax's, which says what is the matter where its status is a 200 or a 500.
func (s *refusalBody) minimax(p *part, code string) {
	p.words = append(p.words, "minimax"+code)
	s.coded = true
}

// minimaxCode is how MiniMax's Anthropic endpoint ends a message: "insufficient balance (1008)".
var minimaxCode = regexp.MustCompile(`^[a-z][a-z _,]{1,80} \(([12]\d{3})\)$`)

// plain is a word for machines without what sets its parts apart.
func plain(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(strings.ToLower(word))
}

// clip bounds a message, between characters.
func clip(text string) string {
	if len(text) > maxSaid {
		return strings.ToValidUTF8(text[:maxSaid], "")
	}
	return text
}
