// Vercel's AI SDK, which runs tools by itself.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { description, key, model, prompt, run, schema, streamed, url, weather } from "./run.mjs";

const baseURL = `${url}/v1`;
const name = model ?? "service/auto";

async function text(languageModel) {
  const options = {
    model: languageModel,
    prompt,
    maxRetries: 0,
    stopWhen: stepCountIs(5),
    tools: { get_weather: tool({ description, inputSchema: jsonSchema(schema), execute: async (input) => weather(input) }) },
  };
  return streamed ? streamText(options).text : (await generateText(options)).text;
}

await run({
  chat: () => text(createOpenAICompatible({ name: "fareway", baseURL, apiKey: key, includeUsage: true })(name)),
  responses: () => text(createOpenAI({ baseURL, apiKey: key }).responses(name)),
  messages: () => text(createAnthropic({ baseURL, authToken: key })(name)),
});
