#!/usr/bin/env node
// A provider plugin in Node: it greets whoever wrote the last message. This file is the provider; plugin.js is what every
// plugin needs to speak with the gateway. provider.proto says what each call means.
'use strict';

const { setTimeout: pause } = require('node:timers/promises');
const { serve } = require('./plugin.js');

// What Describe answers: the settings of the `config` block in the operator's file.
const about = {
  name: 'node',
  version: '1.0.0',
  capabilities: { count_tokens: true },
  schema: {
    attributes: [
      { name: 'greeting', type: 'string', doc: 'What a reply begins with. Default: Hello.' },
      { name: 'pause_ms', type: 'number', doc: 'How long to wait before each word, in milliseconds. Default: 0.' },
    ],
  },
};

let settings; // undefined until Configure

// configure answers with what is wrong with the settings, or with nothing. It names settings and never repeats a value.
function configure(given) {
  for (const [name, value] of Object.entries(given)) {
    const setting = about.schema.attributes.find((a) => a.name === name);
    if (!setting) return `setting ${name} is unknown`;
    if (typeof value !== setting.type) return `setting ${name} must be a ${setting.type}`;
  }
  settings = { greeting: 'Hello', pause_ms: 0, ...given };
  return '';
}

// One token is one word here; a real provider sends what its upstream reports.
const tokens = (texts) => texts.join(' ').split(/\s+/).filter(Boolean).length;
const textsOf = (request) => request.messages.flatMap((m) => m.parts.map((p) => p.text ?? ''));

// generate makes one attempt. send takes an event, and resolves when there is room for more; signal is aborted when the
// caller has left. A real provider calls its upstream here, with the signal, and throws { kind, message } when that
// refuses: kinds are the names in Failure.Kind.
async function generate(request, send, signal) {
  if (!settings) throw { kind: 'PROTOCOL', message: 'the provider is not configured; call Configure first' };
  await send({ accepted: { model: request.model } });
  const reply = `${settings.greeting}, ${textsOf(request).at(-1)}`;
  for (const word of reply.match(/\s*\S+/g).slice(0, request.max_tokens)) {
    if (settings.pause_ms > 0) await pause(settings.pause_ms, undefined, { signal });
    await send({ text: word });
  }
  await send({ usage: { input: tokens(textsOf(request)), output: tokens([reply]) } });
  await send({ finish: { reason: 'stop', model: request.model } });
}

serve({
  about,
  configure,
  generate,
  health: () => '', // or why no request can be taken
  countTokens: (request) => tokens(textsOf(request)),
});
