// The OpenAI Agents SDK. Without a MODEL it sends its own default name. Its traces would go to OpenAI: they are off.

import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { description, key, model, prompt, run, schema, streamed, url, weather } from "./run.mjs";

setTracingDisabled(true);
const openAIClient = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

async function text(useResponses) {
  const agent = new Agent({
    name: "forecaster",
    instructions: "You tell the weather.",
    ...(model ? { model } : {}),
    tools: [tool({ name: "get_weather", description, parameters: schema, strict: false, execute: async (input) => weather(input) })],
  });
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }) });
  const result = await runner.run(agent, prompt, { stream: streamed });
  if (streamed) await result.completed;
  return result.finalOutput;
}

await run({ chat: () => text(false), responses: () => text(true) });
