-- Times are nanoseconds since 1970 in UTC. Money is in microcents unless a column says credits.

CREATE TABLE meta (
  version INTEGER NOT NULL
) STRICT;
INSERT INTO meta (version) VALUES (1);

-- One row for each process that ever opened this ledger to admit requests.
CREATE TABLE owners (
  boot_id TEXT PRIMARY KEY,
  pid     INTEGER NOT NULL,
  started INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE accounts (
  id      TEXT PRIMARY KEY,
  name    TEXT NOT NULL UNIQUE,
  plan    TEXT NOT NULL,
  state   TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'inactive')),
  created INTEGER NOT NULL,
  credits INTEGER NOT NULL DEFAULT 0,
  held    INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
  accrued INTEGER NOT NULL DEFAULT 0 CHECK (accrued BETWEEN 0 AND 999999),
  -- The head of the account's hash chain, and how many entries it has.
  head    BLOB NOT NULL CHECK (length(head) = 32),
  entries INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
  id      TEXT PRIMARY KEY,
  account TEXT NOT NULL REFERENCES accounts (id),
  name    TEXT NOT NULL,
  hash    BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  last4   TEXT NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0 CHECK (revoked IN (0, 1)),
  created INTEGER NOT NULL,
  UNIQUE (account, name)
) STRICT, WITHOUT ROWID;

-- Microcents per million tokens. A price is never changed: a new one is a new version.
CREATE TABLE prices (
  route       TEXT NOT NULL,
  version     INTEGER NOT NULL,
  input       INTEGER NOT NULL CHECK (input >= 0),
  cache_read  INTEGER NOT NULL CHECK (cache_read >= 0),
  cache_write INTEGER NOT NULL CHECK (cache_write >= 0),
  output      INTEGER NOT NULL CHECK (output >= 0),
  since       INTEGER NOT NULL,
  PRIMARY KEY (route, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
  id        TEXT PRIMARY KEY,
  account   TEXT NOT NULL REFERENCES accounts (id),
  key       TEXT NOT NULL REFERENCES keys (id),
  endpoint  TEXT NOT NULL,
  profile   TEXT NOT NULL,
  owner     TEXT NOT NULL REFERENCES owners (boot_id),
  state     TEXT NOT NULL CHECK (state IN ('held', 'settled')),
  hold      INTEGER NOT NULL CHECK (hold >= 0), -- counts while the state is held
  status    INTEGER NOT NULL DEFAULT 0,         -- HTTP status; 0 when nobody knows
  reason    TEXT NOT NULL DEFAULT '',
  free      INTEGER NOT NULL DEFAULT 0 CHECK (free IN (0, 1)),
  surcharge INTEGER NOT NULL DEFAULT 0 CHECK (surcharge >= 0),
  charge    INTEGER NOT NULL DEFAULT 0 CHECK (charge >= 0),
  pending   INTEGER NOT NULL DEFAULT 0 CHECK (pending IN (0, 1)),
  created   INTEGER NOT NULL,
  settled   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX live_holds ON requests (account) WHERE state = 'held';

-- A token count is NULL when the upstream did not report it; an outcome is NULL while the attempt runs.
CREATE TABLE attempts (
  request       TEXT NOT NULL REFERENCES requests (id),
  seq           INTEGER NOT NULL,
  id            TEXT NOT NULL UNIQUE,
  owner         TEXT NOT NULL REFERENCES owners (boot_id),
  route         TEXT NOT NULL,
  provider      TEXT NOT NULL,
  model         TEXT NOT NULL,
  price_version INTEGER NOT NULL,
  outcome       TEXT CHECK (outcome IN ('finished', 'failed', 'unproven', 'not_made')),
  input         INTEGER CHECK (input >= 0),
  cache_read    INTEGER CHECK (cache_read >= 0),
  cache_write   INTEGER CHECK (cache_write >= 0),
  output        INTEGER CHECK (output >= 0),
  reasoning     INTEGER CHECK (reasoning >= 0),
  estimated     INTEGER NOT NULL DEFAULT 0 CHECK (estimated IN (0, 1)),
  created       INTEGER NOT NULL,
  PRIMARY KEY (request, seq),
  FOREIGN KEY (route, price_version) REFERENCES prices (route, version)
) STRICT, WITHOUT ROWID;

-- The journal: append-only, chained by hash within an account.
CREATE TABLE entries (
  account    TEXT NOT NULL REFERENCES accounts (id),
  seq        INTEGER NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('top_up', 'charge', 'adjustment')),
  request    TEXT REFERENCES requests (id),
  reference  TEXT,
  reason     TEXT NOT NULL,
  microcents INTEGER NOT NULL, -- what it adds to the account's worth
  credits    INTEGER NOT NULL, -- balance after it
  accrued    INTEGER NOT NULL CHECK (accrued BETWEEN 0 AND 999999), -- after it
  created    INTEGER NOT NULL,
  prev       BLOB NOT NULL CHECK (length(prev) = 32),
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (account, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_charge ON entries (request) WHERE kind = 'charge';
CREATE UNIQUE INDEX one_top_up ON entries (account, reference) WHERE reference IS NOT NULL;

CREATE TRIGGER entries_keep BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER prices_keep BEFORE DELETE ON prices
BEGIN SELECT RAISE(ABORT, 'prices are append-only'); END;
CREATE TRIGGER prices_stay BEFORE UPDATE ON prices
BEGIN SELECT RAISE(ABORT, 'prices are append-only'); END;
