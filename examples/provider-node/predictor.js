#!/usr/bin/env node
// A provider plugin in Node that only compares routes: a classifier of one's own, for the `predictor` block. This one goes by
// words of the operator's that say that a request is hard. plugin.js is what every plugin needs to speak with the gateway.
'use strict';

const { serve } = require('./plugin.js');

// What Describe answers: the settings of the `config` block in the operator's file.
const about = {
  name: 'node-predictor',
  version: '1.0.0',
  capabilities: { predict: true },
  schema: {
    attributes: [
      { name: 'hard_words', type: 'list(string)', required: true, doc: 'What only a good model is to be asked about.' },
    ],
  },
};

let hard; // a regular expression, undefined until Configure

// configure answers with what is wrong with the settings, or with nothing. It names settings and never repeats a value.
function configure(given) {
  const names = about.schema.attributes.map((a) => a.name);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown) return `setting ${unknown} is unknown`;
  const words = given.hard_words;
  if (!Array.isArray(words) || words.length === 0 || !words.every((w) => typeof w === 'string' && w !== '')) {
    return 'setting hard_words must be a list of words';
  }
  const escaped = words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  hard = new RegExp(`(?<![\\p{L}\\p{N}])(${escaped.join('|')})(?![\\p{L}\\p{N}])`, 'iu');
  return '';
}

// predict says for each request how likely the reply of each route serves, 0 to 1. Of a request without such words it knows
// nothing: the gateway predicts those itself. A real one asks a model here, for all requests at once.
function predict(requests) {
  return requests.map((request) => {
    const last = request.texts.filter((t) => t.role === 'user').at(-1)?.text ?? '';
    if (!hard?.test(last)) return { qualities: [] };
    return { qualities: request.routes.map((route) => route.quality ** 3) };
  });
}

serve({
  about,
  configure,
  predict,
  health: () => '', // or why nothing can be predicted
  generate: async () => {
    if (!hard) throw { kind: 'PROTOCOL', message: 'the provider is not configured; call Configure first' };
    throw { kind: 'REJECTED', message: 'this provider compares routes and answers no requests' };
  },
});
