-- Times are nanoseconds since 1970 in UTC. Money is in microcents unless a column says credits.
--
-- What every request writes is kept small and in order: accounts, keys and prices are named by small numbers,
-- and the large tables (requests, attempts, entries) only grow at their ends, for request ids begin with the
-- time. Running requests are in `holds` alone and move to the large tables when they are settled. A list of more than
-- two texts in a CHECK is made anew for each row, which costs more than the row: the usual value comes before it.

ALTER TABLE accounts RENAME TO accounts_1;
ALTER TABLE keys     RENAME TO keys_1;
ALTER TABLE requests RENAME TO requests_1;
ALTER TABLE attempts RENAME TO attempts_1;
ALTER TABLE entries  RENAME TO entries_1;
DROP TRIGGER entries_keep;
DROP TRIGGER entries_stay;
DROP TRIGGER prices_keep;
DROP TRIGGER prices_stay;
DROP INDEX live_holds;
DROP INDEX one_charge;
DROP INDEX one_top_up;

-- Requests that were settled before this moment may be without their detail.
ALTER TABLE meta ADD COLUMN pruned_before INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN holds INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN held  INTEGER NOT NULL DEFAULT 0;

CREATE TABLE accounts (
  n       INTEGER PRIMARY KEY, -- how the other tables name it; never shown
  id      TEXT NOT NULL UNIQUE,
  name    TEXT NOT NULL UNIQUE,
  plan    TEXT NOT NULL,
  state   TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'inactive')),
  created INTEGER NOT NULL,
  -- The number of the current period, 0 for the one that began with the account, and its end; NULL without periods.
  period     INTEGER CHECK (period >= 0),
  period_end INTEGER,
  credits INTEGER NOT NULL DEFAULT 0,
  accrued INTEGER NOT NULL DEFAULT 0 CHECK (accrued BETWEEN 0 AND 999999),
  -- The head of the account's hash chain, its entry's number, and how many entries it has.
  head    BLOB NOT NULL CHECK (length(head) = 32),
  last    INTEGER,
  entries INTEGER NOT NULL DEFAULT 0,
  -- How many requests were settled ever. With `pruned` it shows that no request's detail is missing.
  requests      INTEGER NOT NULL DEFAULT 0,
  -- What was charged, used and waived ever, and what it was when the current period began.
  spent         INTEGER NOT NULL DEFAULT 0,
  tokens        INTEGER NOT NULL DEFAULT 0,
  waived        INTEGER NOT NULL DEFAULT 0,
  spent_before  INTEGER NOT NULL DEFAULT 0,
  tokens_before INTEGER NOT NULL DEFAULT 0,
  waived_before INTEGER NOT NULL DEFAULT 0,
  -- The line of keys (see keys.root) that paid last, and what it spent and its row does not say yet; NULL and 0 together.
  line       INTEGER,
  line_spent INTEGER NOT NULL DEFAULT 0 CHECK (line_spent >= 0)
) STRICT;
CREATE INDEX periods ON accounts (plan, period_end);

INSERT INTO accounts (id, name, plan, state, created, credits, accrued, head, entries)
  SELECT id, name, plan, state, created, credits, accrued, head, entries FROM accounts_1 ORDER BY created, id;

CREATE TABLE keys (
  n       INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  account INTEGER NOT NULL REFERENCES accounts (n),
  name    TEXT NOT NULL,
  hash    BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  last4   TEXT NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0 CHECK (revoked IN (0, 1)),
  created INTEGER NOT NULL,
  expires INTEGER,
  -- The first key of the line of keys that replaced one another, often this one. Its row has the line's cap, what the line
  -- spent ever, and what that was when the account's current period began.
  root         INTEGER NOT NULL,
  spend_cap    INTEGER NOT NULL DEFAULT 0 CHECK (spend_cap >= 0),
  spent        INTEGER NOT NULL DEFAULT 0,
  spent_before INTEGER NOT NULL DEFAULT 0,
  UNIQUE (account, name)
) STRICT;

INSERT INTO keys (n, id, account, name, hash, last4, revoked, created, root)
  SELECT row_number() OVER w, k.id, a.n, k.name, k.hash, k.last4, k.revoked, k.created, row_number() OVER w
  FROM keys_1 AS k JOIN accounts AS a ON a.id = k.account WINDOW w AS (ORDER BY k.created, k.id);

-- What a price costs the operator. A version is a pair of both, and never changed.
ALTER TABLE prices ADD COLUMN cost_input       INTEGER NOT NULL DEFAULT 0 CHECK (cost_input >= 0);
ALTER TABLE prices ADD COLUMN cost_cache_read  INTEGER NOT NULL DEFAULT 0 CHECK (cost_cache_read >= 0);
ALTER TABLE prices ADD COLUMN cost_cache_write INTEGER NOT NULL DEFAULT 0 CHECK (cost_cache_write >= 0);
ALTER TABLE prices ADD COLUMN cost_output      INTEGER NOT NULL DEFAULT 0 CHECK (cost_output >= 0);
UPDATE prices SET cost_input = input, cost_cache_read = cache_read, cost_cache_write = cache_write, cost_output = output;

-- The attempts of running requests. The first one's row has what is known of the request, and its hold; those of the others
-- repeat it, with a hold of 0. There are only as many as requests run. What an account holds is the sum of its rows here, so that
-- a hold writes nothing else; meta has how many rows there are and what they hold together.
CREATE TABLE holds (
  n             INTEGER NOT NULL,
  request       TEXT NOT NULL,
  seq           INTEGER NOT NULL,
  account       INTEGER NOT NULL,
  key           INTEGER NOT NULL,
  owner         TEXT NOT NULL,
  endpoint      TEXT NOT NULL,
  profile       TEXT NOT NULL,
  hold          INTEGER NOT NULL CHECK (hold >= 0),
  route         TEXT NOT NULL,
  provider      TEXT NOT NULL,
  model         TEXT NOT NULL,
  price_version INTEGER NOT NULL,
  created       INTEGER NOT NULL,
  PRIMARY KEY (account, n)
) STRICT, WITHOUT ROWID;

-- Settled requests.
CREATE TABLE requests (
  id            TEXT PRIMARY KEY,
  account       INTEGER NOT NULL,
  key           INTEGER NOT NULL,
  owner         TEXT NOT NULL,
  endpoint      TEXT NOT NULL,
  profile       TEXT NOT NULL,
  hold          INTEGER NOT NULL, -- what it held at the end
  status        INTEGER NOT NULL, -- HTTP status; 0 when nobody knows
  reason        TEXT NOT NULL,
  free          INTEGER NOT NULL CHECK (free IN (0, 1)),
  service_limit INTEGER NOT NULL CHECK (service_limit IN (0, 1)),
  surcharge     INTEGER NOT NULL CHECK (surcharge >= 0),
  charge        INTEGER NOT NULL CHECK (charge >= 0), -- receipts included
  waived        INTEGER NOT NULL CHECK (waived >= 0), -- receipts included
  tokens        INTEGER NOT NULL CHECK (tokens >= 0), -- input and output that count against the token budget, receipts included
  refunded      INTEGER NOT NULL DEFAULT 0 CHECK (refunded BETWEEN 0 AND charge),
  pending       INTEGER NOT NULL CHECK (pending IN (0, 1)),
  created       INTEGER NOT NULL,
  settled       INTEGER NOT NULL,
  entry         INTEGER -- of the settlement's charge; NULL when it charged nothing
) STRICT, WITHOUT ROWID;

-- A token count is NULL when the upstream did not report it.
CREATE TABLE attempts (
  request       TEXT NOT NULL,
  seq           INTEGER NOT NULL,
  route         TEXT NOT NULL,
  provider      TEXT NOT NULL,
  model         TEXT NOT NULL,
  price_version INTEGER NOT NULL,
  outcome       TEXT NOT NULL CHECK (outcome = 'finished' OR outcome IN ('failed', 'unproven', 'not_made', 'closed')),
  input         INTEGER CHECK (input >= 0),
  cache_read    INTEGER CHECK (cache_read >= 0),
  cache_write   INTEGER CHECK (cache_write >= 0),
  output        INTEGER CHECK (output >= 0),
  reasoning     INTEGER CHECK (reasoning >= 0),
  estimated     INTEGER NOT NULL CHECK (estimated IN (0, 1)),
  created       INTEGER NOT NULL,
  receipt       INTEGER, -- when a later receipt proved it
  PRIMARY KEY (request, seq)
) STRICT, WITHOUT ROWID;

-- What the requests of a key came to whose detail was pruned, so that the counters can still be recomputed.
CREATE TABLE pruned (
  key      INTEGER PRIMARY KEY,
  requests INTEGER NOT NULL, -- how many
  tokens   INTEGER NOT NULL, -- as the account's counter has them
  charge   INTEGER NOT NULL,
  waived   INTEGER NOT NULL,
  refunded INTEGER NOT NULL
) STRICT;

-- The attempts that wait for a receipt.
CREATE TABLE waiting (
  provider TEXT NOT NULL,
  created  INTEGER NOT NULL,
  request  TEXT NOT NULL,
  seq      INTEGER NOT NULL,
  route    TEXT NOT NULL,
  PRIMARY KEY (provider, created, request, seq)
) STRICT, WITHOUT ROWID;

-- The journal: append-only, chained by hash within an account. `before` is the account's entry before this one.
CREATE TABLE entries (
  n          INTEGER PRIMARY KEY,
  account    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  before     INTEGER,
  kind       TEXT NOT NULL CHECK (kind = 'charge' OR kind IN ('top_up', 'receipt', 'refund', 'adjustment', 'allotment')),
  book       TEXT NOT NULL CHECK (book = 'revenue' OR book IN ('payments', 'adjustments', 'allotments')),
  request    TEXT,
  reference  TEXT,
  reason     TEXT NOT NULL,
  prices     TEXT NOT NULL,
  microcents INTEGER NOT NULL, -- what it adds to the account's worth and takes from the book
  credits    INTEGER NOT NULL, -- balance after it
  accrued    INTEGER NOT NULL CHECK (accrued BETWEEN 0 AND 999999), -- after it
  created    INTEGER NOT NULL,
  format     INTEGER NOT NULL,
  prev       BLOB NOT NULL CHECK (length(prev) = 32),
  hash       BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
-- Rows without a reference, which is nearly all, are in no index. Those of allotments, which are times, never collide with those
-- that people give.
CREATE UNIQUE INDEX one_reference ON entries (account, kind = 'allotment', reference) WHERE reference IS NOT NULL;
-- What happened to a request after its settlement, whose entry the request's row names. Charges are not in it.
CREATE INDEX later ON entries (request) WHERE kind IN ('receipt', 'refund');

INSERT INTO entries (n, account, seq, kind, book, request, reference, reason, prices, microcents, credits, accrued, created, format, prev, hash)
  SELECT row_number() OVER (ORDER BY e.late, a.n, e.seq), a.n, e.seq, e.kind,
    CASE e.kind WHEN 'top_up' THEN 'payments' WHEN 'charge' THEN 'revenue' ELSE 'adjustments' END,
    e.request, e.reference, e.reason, '', e.microcents, e.credits, e.accrued, e.created, 1, e.prev, e.hash
  -- A clock may have been put back: an account's entries keep their order all the same.
  FROM (SELECT *, max(created) OVER (PARTITION BY account ORDER BY seq) AS late FROM entries_1) AS e
  JOIN accounts AS a ON a.id = e.account;
UPDATE entries SET before = p.n FROM
  (SELECT n AS me, lag(n) OVER (PARTITION BY account ORDER BY seq) AS n FROM entries) AS p WHERE entries.n = p.me;
UPDATE accounts SET last = e.n FROM (SELECT account, max(n) AS n FROM entries GROUP BY account) AS e WHERE e.account = accounts.n;

INSERT INTO requests (id, account, key, owner, endpoint, profile, hold, status, reason, free, service_limit, surcharge, charge, waived, tokens, pending, created, settled, entry)
  SELECT r.id, a.n, k.n, r.owner, r.endpoint, r.profile, r.hold, r.status, r.reason, r.free, 0, r.surcharge, r.charge, 0,
    iif(r.free, 0, coalesce(t.tokens, 0)), r.pending, r.created, r.settled, e.n
  FROM requests_1 AS r JOIN accounts AS a ON a.id = r.account JOIN keys AS k ON k.id = r.key
  LEFT JOIN (SELECT request, n FROM entries WHERE kind = 'charge') AS e ON e.request = r.id
  LEFT JOIN (SELECT request, sum(coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0) + coalesce(output, 0)) AS tokens
    FROM attempts_1 GROUP BY request) AS t ON t.request = r.id
  WHERE r.state = 'settled';
UPDATE accounts SET requests = r.n FROM (SELECT account, count(*) AS n FROM requests GROUP BY account) AS r WHERE r.account = accounts.n;
INSERT INTO attempts (request, seq, route, provider, model, price_version, outcome, input, cache_read, cache_write, output, reasoning, estimated, created)
  SELECT t.request, t.seq, t.route, t.provider, t.model, t.price_version, t.outcome, t.input, t.cache_read, t.cache_write, t.output, t.reasoning, t.estimated, t.created
  FROM attempts_1 AS t JOIN requests AS r ON r.id = t.request;
INSERT INTO waiting (provider, created, request, seq, route)
  SELECT t.provider, t.created, t.request, t.seq, t.route FROM attempts AS t JOIN requests AS r ON r.id = t.request
  WHERE t.outcome = 'unproven' AND r.pending;
INSERT INTO holds (n, request, seq, account, key, owner, endpoint, profile, hold, route, provider, model, price_version, created)
  SELECT row_number() OVER (ORDER BY t.created, t.request, t.seq), t.request, t.seq, a.n, k.n, r.owner, r.endpoint, r.profile, iif(t.seq = 1, r.hold, 0), t.route, t.provider, t.model, t.price_version, t.created
  FROM attempts_1 AS t JOIN requests_1 AS r ON r.id = t.request JOIN accounts AS a ON a.id = r.account JOIN keys AS k ON k.id = r.key
  WHERE r.state = 'held';
UPDATE meta SET holds = h.n, held = h.hold FROM (SELECT count(*) AS n, coalesce(sum(hold), 0) AS hold FROM holds) AS h;
-- Counters begin with what the journal and the requests say.
UPDATE accounts SET spent = e.spent FROM (SELECT account, -sum(microcents) AS spent FROM entries WHERE kind = 'charge' GROUP BY account) AS e
  WHERE e.account = accounts.n;
UPDATE accounts SET tokens = r.tokens FROM (SELECT account, sum(tokens) AS tokens FROM requests GROUP BY account) AS r WHERE r.account = accounts.n;
UPDATE keys SET spent = r.spent FROM (SELECT key, sum(charge) AS spent FROM requests GROUP BY key) AS r WHERE r.key = keys.n;

DROP TABLE attempts_1;
DROP TABLE entries_1;
DROP TABLE requests_1;
DROP TABLE keys_1;
DROP TABLE accounts_1;

CREATE TABLE checkpoints (
  n       INTEGER PRIMARY KEY,
  entries INTEGER NOT NULL, -- how many entries the journal had
  created INTEGER NOT NULL,
  prev    BLOB NOT NULL CHECK (length(prev) = 32),
  hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

-- What operators did, chained by hash; before and after are JSON objects of what changed.
CREATE TABLE audit (
  n       INTEGER PRIMARY KEY,
  created INTEGER NOT NULL,
  actor   TEXT NOT NULL,
  action  TEXT NOT NULL,
  account INTEGER,
  subject TEXT NOT NULL,
  before  TEXT NOT NULL,
  after   TEXT NOT NULL,
  prev    BLOB NOT NULL CHECK (length(prev) = 32),
  hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE TRIGGER entries_keep BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER prices_keep BEFORE DELETE ON prices BEGIN SELECT RAISE(ABORT, 'prices are append-only'); END;
CREATE TRIGGER prices_stay BEFORE UPDATE ON prices BEGIN SELECT RAISE(ABORT, 'prices are append-only'); END;
CREATE TRIGGER checkpoints_keep BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER checkpoints_stay BEFORE UPDATE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER audit_keep BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_stay BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
