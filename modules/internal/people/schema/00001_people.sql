-- +goose Up
-- Both engines read this: TEXT and BIGINT only, times in nanoseconds since 1970, 0 for never. Hashes are SHA-256 in hex.
CREATE TABLE portal_people (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  operator TEXT NOT NULL,
  operator_from TEXT NOT NULL, -- the oidc block whose groups gave it; '': somebody did
  disabled BIGINT NOT NULL,
  created BIGINT NOT NULL,
  signed_in BIGINT NOT NULL,
  language TEXT NOT NULL,
  zone TEXT NOT NULL,
  password TEXT NOT NULL, -- argon2id, as PHC strings are written; '': none
  totp TEXT NOT NULL, -- the secret, in base32; '': none
  totp_next TEXT NOT NULL, -- one that is not confirmed yet
  totp_step BIGINT NOT NULL -- the last that was used
);
CREATE INDEX portal_people_operators ON portal_people (operator);

CREATE TABLE portal_memberships (
  account TEXT NOT NULL,
  person TEXT NOT NULL REFERENCES portal_people (id),
  role TEXT NOT NULL,
  since BIGINT NOT NULL,
  PRIMARY KEY (account, person)
);
CREATE INDEX portal_memberships_person ON portal_memberships (person, account);

CREATE TABLE portal_invitations (
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  email TEXT NOT NULL,
  account TEXT NOT NULL,
  role TEXT NOT NULL,
  operator TEXT NOT NULL,
  reset BIGINT NOT NULL,
  person TEXT NOT NULL,
  made_by TEXT NOT NULL,
  created BIGINT NOT NULL,
  expires BIGINT NOT NULL
);
CREATE INDEX portal_invitations_account ON portal_invitations (account, id);
CREATE INDEX portal_invitations_email ON portal_invitations (email);
CREATE INDEX portal_invitations_expires ON portal_invitations (expires);

CREATE TABLE portal_sessions (
  hash TEXT NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  person TEXT NOT NULL REFERENCES portal_people (id),
  created BIGINT NOT NULL,
  seen BIGINT NOT NULL,
  ends BIGINT NOT NULL, -- whatever happens
  idle BIGINT NOT NULL, -- how long it may rest, in nanoseconds
  verified BIGINT NOT NULL,
  address TEXT NOT NULL,
  agent TEXT NOT NULL,
  host TEXT NOT NULL,
  secure BIGINT NOT NULL,
  method TEXT NOT NULL,
  account TEXT NOT NULL
);
CREATE INDEX portal_sessions_person ON portal_sessions (person, created);
CREATE INDEX portal_sessions_ends ON portal_sessions (ends);

CREATE TABLE portal_challenges (
  hash TEXT NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  person TEXT NOT NULL, -- '': nobody knows yet
  session TEXT NOT NULL, -- its id; '': of nobody who has signed in
  host TEXT NOT NULL,
  data TEXT NOT NULL, -- JSON
  tries BIGINT NOT NULL,
  expires BIGINT NOT NULL
);
CREATE INDEX portal_challenges_expires ON portal_challenges (expires);

CREATE TABLE portal_passkeys (
  id TEXT NOT NULL PRIMARY KEY, -- of the credential, in base64url
  person TEXT NOT NULL REFERENCES portal_people (id),
  name TEXT NOT NULL,
  created BIGINT NOT NULL,
  used BIGINT NOT NULL,
  data TEXT NOT NULL -- the public key and what else go-webauthn keeps, in JSON
);
CREATE INDEX portal_passkeys_person ON portal_passkeys (person);

CREATE TABLE portal_recovery (
  person TEXT NOT NULL REFERENCES portal_people (id),
  hash TEXT NOT NULL,
  PRIMARY KEY (person, hash)
);

CREATE TABLE portal_identities (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  person TEXT NOT NULL REFERENCES portal_people (id),
  created BIGINT NOT NULL,
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX portal_identities_person ON portal_identities (person);

CREATE TABLE portal_failures (
  name TEXT NOT NULL PRIMARY KEY, -- the hash of whose sign-ins have failed
  failures BIGINT NOT NULL,
  last BIGINT NOT NULL
);
CREATE INDEX portal_failures_last ON portal_failures (last);
