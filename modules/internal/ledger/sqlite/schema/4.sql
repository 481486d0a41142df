-- Times are nanoseconds since 1970 in UTC. Money is in microcents unless a column says credits.
--
-- What requests change of an account has rows of its own, which are short and in no index. Holds are in the order in which they
-- were made, so that new ones go to the table's end and those that are settled leave its beginning.

CREATE TABLE balances (
  n       INTEGER PRIMARY KEY, -- of the account
  credits INTEGER NOT NULL DEFAULT 0,
  accrued INTEGER NOT NULL DEFAULT 0 CHECK (accrued BETWEEN 0 AND 999999),
  -- The head of the account's hash chain, its entry's number, and how many entries it has.
  head    BLOB NOT NULL CHECK (length(head) = 32),
  last    INTEGER,
  entries INTEGER NOT NULL DEFAULT 0,
  -- How many requests were settled ever. With `pruned` it shows that no request's detail is missing.
  requests   INTEGER NOT NULL DEFAULT 0,
  -- What was charged, used and waived ever.
  spent      INTEGER NOT NULL DEFAULT 0,
  tokens     INTEGER NOT NULL DEFAULT 0,
  waived     INTEGER NOT NULL DEFAULT 0,
  -- The line of keys (see keys.root) that paid last, and what it spent and its row does not say yet; NULL and 0 together.
  line       INTEGER,
  line_spent INTEGER NOT NULL DEFAULT 0 CHECK (line_spent >= 0)
) STRICT;
INSERT INTO balances (n, credits, accrued, head, last, entries, requests, spent, tokens, waived, line, line_spent)
  SELECT n, credits, accrued, head, last, entries, requests, spent, tokens, waived, line, line_spent FROM accounts;

CREATE TABLE accounts_4 (
  n       INTEGER PRIMARY KEY, -- how the other tables name it; never shown
  id      TEXT NOT NULL UNIQUE,
  name    TEXT NOT NULL UNIQUE,
  plan    TEXT NOT NULL,
  state   TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'inactive')),
  created INTEGER NOT NULL,
  -- The number of the current period, 0 for the one that began with the account, and its end; NULL without periods.
  period     INTEGER CHECK (period >= 0),
  period_end INTEGER,
  -- What was charged, used and waived when the current period began.
  spent_before  INTEGER NOT NULL DEFAULT 0,
  tokens_before INTEGER NOT NULL DEFAULT 0,
  waived_before INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO accounts_4 (n, id, name, plan, state, created, period, period_end, spent_before, tokens_before, waived_before)
  SELECT n, id, name, plan, state, created, period, period_end, spent_before, tokens_before, waived_before FROM accounts;
DROP TABLE accounts;
ALTER TABLE accounts_4 RENAME TO accounts;
CREATE INDEX periods ON accounts (plan, period_end);

-- The attempts of running requests. The first one's row has what is known of the request, and its hold; those of the others
-- repeat it, with a hold of 0. There are only as many as requests run. What an account holds is the sum of its rows here, so that
-- a hold writes nothing else; meta has how many rows there are and what they hold together.
CREATE TABLE holds_4 (
  n             INTEGER PRIMARY KEY,
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
  created       INTEGER NOT NULL
) STRICT;
INSERT INTO holds_4 (n, request, seq, account, key, owner, endpoint, profile, hold, route, provider, model, price_version, created)
  SELECT n, request, seq, account, key, owner, endpoint, profile, hold, route, provider, model, price_version, created FROM holds ORDER BY n;
DROP TABLE holds;
ALTER TABLE holds_4 RENAME TO holds;
