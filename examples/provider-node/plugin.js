// What every plugin in Node needs to speak with the gateway, by provider.proto: the handshake, the life of the process,
// and the calls. A provider calls serve.
'use strict';

const { X509Certificate } = require('node:crypto');
const { once } = require('node:events');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const { selfSigned } = require('./certificate.js');

const MiB = 1024 * 1024;

function serve(provider) {
  if (!process.env.FAREWAY_PROVIDER_PLUGIN) {
    console.error('This is a Fareway provider plugin: put it into the gateway\'s plugin_dir as fareway-provider-NAME.');
    process.exit(1);
  }
  // The gateway ends the process by Shutdown. These two may come before it has drained.
  process.on('SIGTERM', () => {});
  process.on('SIGINT', () => {});
  // It does not outlive its gateway.
  const host = Number(process.env.FAREWAY_HOST_PID);
  setInterval(() => process.ppid === host || process.exit(1), 1000);

  const server = new grpc.Server({
    'grpc.max_receive_message_length': 64 * MiB,
    'grpc.max_send_message_length': 8 * MiB,
  });
  const protocol = loader.loadSync(path.join(__dirname, 'provider.proto'), { keepCase: true, longs: Number, arrays: true });
  server.addService(protocol['fareway.provider.v1.Provider'], handlers(provider));
  addGoPluginServices(server);

  // Mutual TLS: the gateway trusts the certificate that the handshake shows, and we trust the gateway's only.
  const own = selfSigned('localhost');
  const credentials = grpc.ServerCredentials.createSsl(
    Buffer.from(process.env.PLUGIN_CLIENT_CERT), [{ private_key: Buffer.from(own.key), cert_chain: Buffer.from(own.certificate) }], true);
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR, 'plugin.sock');
  server.bindAsync(`unix:${socket}`, credentials, (err) => {
    if (err) throw err;
    const der = new X509Certificate(own.certificate).raw.toString('base64').replace(/=+$/, '');
    console.log(`1|1|unix|${socket}|grpc|${der}`);
  });
}

// handlers are the calls of the service. A call that fails by an exception ends with a status other than OK, which tells
// the gateway that this process has broken; what an upstream does travels as a failure.
function handlers({ about, configure, generate, health, countTokens, predict }) {
  const unary = (answer) => (call, done) => {
    Promise.resolve().then(() => answer(call.request)).then((response) => done(null, response), done);
  };
  const calls = {
    Describe: unary(() => about),
    Configure: unary(async (request) => ({ error: await configure(JSON.parse(request.settings)) })),
    Health: unary(async () => ({ error: await health() })),
    Generate: async (call) => {
      const left = new AbortController();
      call.on('cancelled', () => left.abort());
      // Flow control: when the gateway is slow, write says so, and the provider waits.
      const send = async (event) => {
        left.signal.throwIfAborted();
        if (!call.write({ events: [event] })) await once(call, 'drain', { signal: left.signal });
      };
      try {
        await generate(call.request, send, left.signal);
      } catch (err) {
        if (left.signal.aborted) return;
        const { kind = 'UPSTREAM', message, status = 0, retry_after_ms = 0 } = err;
        call.write({ events: [{ failure: { kind, message, status, retry_after_ms } }] });
      }
      call.end();
    },
  };
  // Of the optional calls only those are served that the provider has.
  if (countTokens) calls.CountTokens = unary(async (request) => ({ tokens: await countTokens(request.request) }));
  if (predict) calls.Predict = unary(async (request) => ({ predictions: await predict(request.requests) }));
  return calls;
}

// addGoPluginServices adds the two calls that go-plugin, which the gateway uses, has for every plugin. Their messages are
// so small that they are written as bytes.
function addGoPluginServices(server) {
  const same = (bytes) => bytes;
  const add = (service, method, answer) => server.addService({
    [method]: {
      path: `/${service}/${method}`, requestStream: false, responseStream: false,
      requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same,
    },
  }, { [method]: answer });
  add('grpc.health.v1.Health', 'Check', (call, done) => done(null, Buffer.from([8, 1]))); // status: SERVING
  add('plugin.GRPCController', 'Shutdown', (call, done) => {
    done(null, Buffer.alloc(0));
    server.tryShutdown(() => process.exit(0));
  });
}

module.exports = { serve };
