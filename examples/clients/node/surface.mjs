// The request surface of the libraries, beside their tool loops: what else the gateway promises them.
//
//   node surface.mjs LIBRARY BEHAVIOUR
//
// A behaviour that does not hold throws. The upstream answers "Hello. END more", and many words to "long".

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { key, url } from "./run.mjs";

const [library, behaviour] = process.argv.slice(2);
const baseURL = `${url}/v1`;

// Only what the library needs is loaded.
const { default: OpenAI } = ["openai", "agents"].includes(library) ? await import("openai") : {};
const { default: Anthropic } = library === "anthropic" ? await import("@anthropic-ai/sdk") : {};
const { generateText, streamText } = library === "vercel" ? await import("ai") : {};
const { createOpenAICompatible } = library === "vercel" ? await import("@ai-sdk/openai-compatible") : {};
const { ChatOpenAI } = library === "langchain" ? await import("@langchain/openai") : {};
const { Agent, OpenAIProvider, Runner, setTracingDisabled } = library === "agents" ? await import("@openai/agents") : {};

const openai = OpenAI && new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
const anthropic = Anthropic && new Anthropic({ baseURL: url, authToken: key, maxRetries: 0 });
setTracingDisabled?.(true);

// Each has ask, which sends a text and tells what has come back, and start, which sends it streamed and returns when
// the first words are there. id is the request id of a reply; failedID that of an error.
const clients = {
  openai: {
    messages: (text) => ({ messages: [{ role: "user", content: text }] }),
    async ask({ text, model, stop }) {
      const reply = await openai.chat.completions.create({ model, ...(stop && { stop }), ...this.messages(text) });
      const { message, finish_reason } = reply.choices[0];
      return { text: message.content, model: reply.model, id: reply._request_id, tokens: reply.usage.prompt_tokens, ended: finish_reason };
    },
    async start(text, signal) {
      const stream = await openai.chat.completions.create({ model: "service/auto", stream: true, ...this.messages(text) }, { signal });
      for await (const _ of stream) break;
    },
    failedID: (error) => error.requestID,
    ended: "stop",
  },

  anthropic: {
    messages: (text) => ({ max_tokens: 1000, messages: [{ role: "user", content: text }] }),
    async ask({ text, model, stop }) {
      const reply = await anthropic.messages.create({ model, ...(stop && { stop_sequences: stop }), ...this.messages(text) });
      const { content, usage, stop_reason } = reply;
      return { text: content[0].text, model: reply.model, id: reply._request_id, tokens: usage.input_tokens, ended: stop_reason };
    },
    async start(text, signal) {
      const stream = await anthropic.messages.create({ model: "service/auto", stream: true, ...this.messages(text) }, { signal });
      for await (const _ of stream) break;
    },
    failedID: (error) => error.requestID,
    ended: "stop_sequence",
  },

  vercel: {
    model: (name) => createOpenAICompatible({ name: "fareway", baseURL, apiKey: key, includeUsage: true })(name),
    async ask({ text, model, stop }) {
      const reply = await generateText({ model: this.model(model), prompt: text, stopSequences: stop, maxRetries: 0 });
      const { response, usage, finishReason } = reply;
      return { text: reply.text, model: response.modelId, id: response.headers["x-request-id"], tokens: usage.inputTokens, ended: finishReason };
    },
    async start(text, abortSignal) {
      const { textStream } = streamText({ model: this.model("service/auto"), prompt: text, abortSignal, maxRetries: 0, onError() {} });
      for await (const _ of textStream) break;
    },
    status: (error) => error.statusCode,
    failedID: (error) => error.responseHeaders["x-request-id"],
    ended: "stop",
  },

  langchain: {
    model: (model) => new ChatOpenAI({ model, apiKey: key, configuration: { baseURL }, maxRetries: 0 }),
    async ask({ text, model, stop }) {
      const reply = await this.model(model).invoke(text, { stop });
      const { model_name, finish_reason } = reply.response_metadata;
      return { text: reply.text, model: model_name, tokens: reply.usage_metadata.input_tokens, ended: finish_reason };
    },
    async start(text, signal) {
      for await (const _ of await this.model("service/auto").stream(text, { signal })) break;
    },
    failedID: (error) => error.requestID,
    ended: "stop",
  },

  agents: {
    async run({ text, model, stop, stream, signal }) {
      const agent = new Agent({ name: "speaker", model, modelSettings: stop ? { providerData: { stop } } : {} });
      const modelProvider = new OpenAIProvider({ openAIClient: openai, useResponses: false });
      return new Runner({ modelProvider }).run(agent, text, { stream, signal });
    },
    async ask(options) {
      const result = await this.run(options);
      const { requestId, providerData, usage } = result.rawResponses[0];
      return { text: result.finalOutput, model: providerData.model, id: requestId, tokens: usage.inputTokens, ended: providerData.choices[0].finish_reason };
    },
    async start(text, signal) {
      const result = await this.run({ text, model: "service/auto", stream: true, signal });
      for await (const _ of result.toTextStream()) break;
    },
    failedID: (error) => error.requestID,
    ended: "stop",
  },
};

const client = clients[library];
const ask = (more = {}) => client.ask({ text: "Hello", model: "service/auto", ...more });
const get = (path) => (library === "openai" ? openai.get(path) : anthropic.get(`/v1${path}`));

const behaviours = {
  async stop() {
    const { text, ended } = await ask({ stop: ["END"] });
    assert.equal(text.trim(), "Hello.");
    assert.equal(ended, client.ended);
  },

  async count() {
    const { input_tokens } = await anthropic.messages.countTokens({ model: "service/auto", ...client.messages("Hello") });
    assert(input_tokens > 0);
  },

  async models() {
    const ids = [];
    if (library === "openai") {
      for await (const model of openai.models.list()) ids.push(model.id);
      assert.equal((await openai.models.retrieve("service/auto")).id, "service/auto");
    } else {
      for (const model of (await get("/models")).data) ids.push(model.id);
    }
    assert.deepEqual(ids, ["service/auto"]);
  },

  async account() {
    const { credits } = await get("/account");
    assert(credits.available_credits > 0);
  },

  async "request id"() {
    if (library !== "langchain") assert.match((await ask()).id, /^req_/); // which tells it of errors only
    const refused = await ask({ model: "service/nothing" }).catch((error) => error);
    assert.match(client.failedID(refused), /^req_/);
  },

  async "long context"() {
    const { tokens } = await ask({ text: "The quick brown fox jumps over the lazy dog. ".repeat(20_000) });
    assert(tokens > 180_000); // the upstream counts words
  },

  async "model ids"() {
    for (const model of ["service/auto", "auto", "service/budget", "service/balanced", "service/max"]) {
      assert.equal((await ask({ model })).model, model);
    }
    const refused = await ask({ model: "service/nothing" }).catch((error) => error);
    assert.equal(client.status?.(refused) ?? refused.status, 404);
  },

  // It says when the first words are there, leaves when it is told to, and goes on after that.
  async cancellation() {
    const controller = new AbortController();
    await client.start("long", controller.signal);
    controller.abort();
    console.log("left");
    for await (const _ of createInterface({ input: process.stdin })) break;
    assert.equal((await ask()).text, "Hello. END more");
  },
};

await behaviours[behaviour]();
process.exit();
