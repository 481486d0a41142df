// The official Anthropic library, with its own tool runner. It sends the key as a bearer token.

import Anthropic from "@anthropic-ai/sdk";
import { description, key, model, prompt, run, schema, streamed, url, weather } from "./run.mjs";

const client = new Anthropic({ baseURL: url, authToken: key, apiKey: null, maxRetries: 0 });

async function messages() {
  const conversation = [{ role: "user", content: prompt }];
  for (;;) {
    const body = {
      model: model ?? "service/auto",
      max_tokens: 1000,
      messages: conversation,
      tools: [{ name: "get_weather", description, input_schema: schema }],
    };
    const reply = streamed ? await client.messages.stream(body).finalMessage() : await client.messages.create(body);
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply.content.map((block) => block.text ?? "").join("");
    conversation.push({ role: "assistant", content: reply.content });
    conversation.push({
      role: "user",
      content: calls.map(({ id, input }) => ({ type: "tool_result", tool_use_id: id, content: weather(input) })),
    });
  }
}

await run({ messages });
