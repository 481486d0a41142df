// A certificate of our own, which Node cannot make by itself: X.509 (RFC 5280) in DER, as short as it gets.
'use strict';

const crypto = require('node:crypto');

// der is one value: a tag, its length, and what is in it.
function der(tag, ...contents) {
  const body = Buffer.concat(contents.map((c) => Buffer.from(c)));
  const bytes = body.length < 128 ? [] : body.length < 256 ? [body.length] : [body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, bytes.length ? 0x80 | bytes.length : body.length, ...bytes]), body]);
}

const sequence = (...contents) => der(0x30, ...contents);
const oid = (...bytes) => der(0x06, bytes);
const time = (date) => der(0x18, date.toISOString().replace(/[-:T]|\.\d+/g, '')); // GeneralizedTime

// selfSigned makes a key on P-256 and a certificate for a DNS name, both in PEM.
function selfSigned(name) {
  const { privateKey, publicKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)); // ecdsa-with-SHA256
  const subject = sequence(der(0x31, sequence(oid(0x55, 0x04, 0x03), der(0x0c, name)))); // the common name
  const alternative = sequence(oid(0x55, 0x1d, 0x11), der(0x04, sequence(der(0x82, name)))); // the DNS name
  const day = 24 * 3600 * 1000;
  const contents = sequence(
    der(0xa0, der(0x02, [2])), // version 3
    der(0x02, [1], crypto.randomBytes(15)), // serial number
    algorithm, subject,
    sequence(time(new Date(Date.now() - day)), time(new Date(Date.now() + 3650 * day))),
    subject, publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(alternative)),
  );
  const signature = der(0x03, [0], crypto.sign('sha256', contents, privateKey));
  const body = sequence(contents, algorithm, signature).toString('base64').match(/.{1,64}/g).join('\n');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    certificate: `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`,
  };
}

module.exports = { selfSigned };
