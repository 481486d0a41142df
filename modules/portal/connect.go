package portal

import (
	"strings"

	"github.com/fareway/fareway/modules/portal/views"
)

// snippets are how clients are pointed at the gateway: the address stands in the place of {URL}. `gateway connect`
// writes files of agents, which have more settings.
var snippets = []views.Snippet{
	{Name: "curl", Title: "curl", Text: `curl {URL}/v1/chat/completions -H "Authorization: Bearer KEY" \
  -H "Content-Type: application/json" \
  -d '{"model": "service/auto", "messages": [{"role": "user", "content": "Hello"}]}'`},
	{Name: "openai", Title: "OpenAI (Python)", Text: `from openai import OpenAI

client = OpenAI(base_url="{URL}/v1", api_key="KEY")
reply = client.chat.completions.create(
    model="service/auto", messages=[{"role": "user", "content": "Hello"}])
print(reply.choices[0].message.content)`},
	{Name: "anthropic", Title: "Anthropic (Python)", Text: `from anthropic import Anthropic

client = Anthropic(base_url="{URL}", auth_token="KEY")
reply = client.messages.create(model="service/auto", max_tokens=500,
    messages=[{"role": "user", "content": "Hello"}])
print(reply.content[0].text)`},
	{Name: "node", Title: "OpenAI (Node.js)", Text: `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{URL}/v1", apiKey: "KEY" });
const reply = await client.responses.create({ model: "service/auto", input: "Hello" });
console.log(reply.output_text);`},
	{Name: "claude", Title: "Claude Code", Text: `export ANTHROPIC_BASE_URL={URL}
export ANTHROPIC_AUTH_TOKEN=KEY
export ANTHROPIC_MODEL=service/auto
claude`},
	{Name: "env", Title: "Variables that most tools read", Text: `export OPENAI_BASE_URL={URL}/v1
export OPENAI_API_KEY=KEY`},
}

func showConnect(v *visit) error {
	view := views.Connect{URL: v.origin()}
	for _, s := range snippets {
		s.Text = strings.ReplaceAll(s.Text, "{URL}", view.URL)
		view.Snippets = append(view.Snippets, s)
	}
	return v.show(views.ConnectPage(v.page("Connect"), view))
}
