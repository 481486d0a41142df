// The request surface of the two official libraries, beside their tool loops: what else the gateway promises them.
//
//   node surface.mjs openai|anthropic BEHAVIOUR
//
// A behaviour that does not hold throws. The upstream repeats what it is asked, and ends with "END more".

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { key, url } from "./run.mjs";

const [library, behaviour] = process.argv.slice(2);
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, authToken: key, maxRetries: 0 });
const said = (text) => [{ role: "user", content: text }];
const ask = {
  openai: (more = {}, options) =>
    openai.chat.completions.create({ model: "service/auto", messages: said("Hello"), ...more }, options),
  anthropic: (more = {}, options) =>
    anthropic.messages.create({ model: "service/auto", max_tokens: 1000, messages: said("Hello"), ...more }, options),
}[library];
const textOf = (reply) => (library === "openai" ? reply.choices[0].message.content : reply.content[0].text);
const client = { openai, anthropic }[library];
const get = (path) => client.get(library === "openai" ? path : `/v1${path}`);

const behaviours = {
  async stop() {
    const reply = await ask({ [library === "openai" ? "stop" : "stop_sequences"]: ["END"] });
    assert(!textOf(reply).includes("END"));
    if (library === "openai") assert.equal(reply.choices[0].finish_reason, "stop");
    else assert.equal(reply.stop_reason, "stop_sequence");
  },

  async count() {
    const { input_tokens } = await anthropic.messages.countTokens({ model: "service/auto", messages: said("Hello") });
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
    assert.match((await ask())._request_id, /^req_/);
    const refused = await ask({ model: "service/nothing" }).catch((error) => error);
    assert.match(refused.requestID ?? refused.request_id, /^req_/);
  },

  async "long context"() {
    const text = "The quick brown fox jumps over the lazy dog. ".repeat(20_000);
    const { usage } = await ask({ messages: said(text) });
    assert((usage.prompt_tokens ?? usage.input_tokens) > 0);
  },

  async "model ids"() {
    for (const model of ["service/auto", "auto", "service/budget", "service/balanced", "service/max"]) {
      assert.equal((await ask({ model })).model, model);
    }
    const refused = await ask({ model: "service/nothing" }).catch((error) => error);
    assert.equal(refused.status, 404);
  },

  async cancellation() {
    const stream = await ask({ stream: true, messages: said("long") });
    for await (const _ of stream) break;
    stream.controller.abort();
    assert(textOf(await ask()).length > 0);
    for (let left = 100; ; left--) {
      if ((await get("/account")).credits.reserved_credits === 0) return;
      assert(left > 0, "what was held for the cancelled stream is not given back");
      await new Promise((done) => setTimeout(done, 100));
    }
  },
};

await behaviours[behaviour]();
