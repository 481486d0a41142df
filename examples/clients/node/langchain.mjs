// LangChain.js. Without a MODEL it sends its own default name.

import { ChatAnthropic } from "@langchain/anthropic";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { description, key, model, prompt, run, schema, streamed, url, weather } from "./run.mjs";

const named = model ? { model } : {};

async function text(chatModel) {
  const bound = chatModel.bindTools([{ type: "function", function: { name: "get_weather", description, parameters: schema } }]);
  const conversation = [new HumanMessage(prompt)];
  for (;;) {
    const reply = await ask(bound, conversation);
    if (!reply.tool_calls?.length) return reply.text;
    conversation.push(reply);
    for (const { id, args } of reply.tool_calls) {
      conversation.push(new ToolMessage({ tool_call_id: id, content: weather(args) }));
    }
  }
}

async function ask(bound, conversation) {
  if (!streamed) return bound.invoke(conversation);
  let whole;
  for await (const chunk of await bound.stream(conversation)) whole = whole ? whole.concat(chunk) : chunk;
  return whole;
}

const openai = { apiKey: key, configuration: { baseURL: `${url}/v1` }, maxRetries: 0, ...named };

await run({
  chat: () => text(new ChatOpenAI(openai)),
  responses: () => text(new ChatOpenAI({ ...openai, useResponsesApi: true })),
  messages: () => text(new ChatAnthropic({ apiKey: key, anthropicApiUrl: url, maxRetries: 0, ...named })),
});
