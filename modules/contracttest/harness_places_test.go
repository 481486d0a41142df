package contracttest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// place is an endpoint of the contract at one of its paths.
type place struct {
	Method, Path string
	Shape        shape // of its errors, and of its body
}

// Send calls the place with a body that it accepts.
func (p place) Send(c *caller, header ...string) answer {
	c.t.Helper()
	body := ""
	if p.Method == http.MethodPost {
		body = p.Shape.Body("PROMPT")
	}
	return c.Do(p.Method, p.Path, body, header...)
}

// places are all endpoints at all their paths.
var places = []place{
	{"POST", "/v1/chat/completions", shapeOf("chat")}, {"POST", "/chat/completions", shapeOf("chat")},
	{"POST", "/v1/responses", shapeOf("responses")},
	{"POST", "/v1/messages", shapeOf("messages")}, {"POST", "/messages", shapeOf("messages")},
	{"POST", "/v1/messages/count_tokens", shapeOf("messages")}, {"POST", "/messages/count_tokens", shapeOf("messages")},
	{"GET", "/v1/models", shapeOf("chat")}, {"GET", "/models", shapeOf("chat")},
	{"GET", "/v1/models/service/auto", shapeOf("chat")}, {"GET", "/models/service/auto", shapeOf("chat")},
	{"GET", "/v1/account", shapeOf("chat")},
}

// conversation is a list of turns in a shape, as its clients send it.
func conversation(sh shape, turns ...[2]string) string {
	var items []string
	for _, turn := range turns {
		b, err := json.Marshal(map[string]string{"role": turn[0], "content": turn[1]})
		if err != nil {
			panic(err)
		}
		items = append(items, string(b))
	}
	list := map[string]string{"chat": "messages", "responses": "input", "messages": "messages"}[sh.Name]
	return quote(list) + ":[" + strings.Join(items, ",") + "]"
}
