// The official OpenAI library.

import OpenAI from "openai";
import { description, key, model, prompt, run, schema, streamed, url, weather } from "./run.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

async function chat() {
  const tool = {
    type: "function",
    function: { name: "get_weather", description, parameters: schema, parse: JSON.parse, function: weather },
  };
  const body = {
    model: model ?? "service/auto",
    messages: [{ role: "user", content: prompt }],
    tools: [tool],
    stream: streamed,
  };
  return client.chat.completions.runTools(body).finalContent();
}

async function responses() {
  const input = [{ role: "user", content: prompt }];
  for (;;) {
    const body = {
      model: model ?? "service/auto",
      input,
      tools: [{ type: "function", name: "get_weather", description, parameters: schema, strict: false }],
    };
    const reply = streamed ? await client.responses.stream(body).finalResponse() : await client.responses.create(body);
    const calls = reply.output.filter((item) => item.type === "function_call");
    if (calls.length === 0) return reply.output_text;
    input.push(...reply.output);
    for (const call of calls) {
      input.push({
        type: "function_call_output",
        call_id: call.call_id,
        output: weather(JSON.parse(call.arguments)),
      });
    }
  }
}

await run({ chat, responses });
