-- +goose Up
-- Times are nanoseconds since 1970 in UTC; those of nodes are the database's own. Money is in microcents unless a column says
-- credits. Every table of accounts has the account, in its key, so that they can be spread over machines by it. What a request's
-- id leads is found by that alone, too. Nothing is counted or numbered across accounts, but in the one row of `ledger`, which requests neither read nor write.

CREATE TABLE ledger (
  one           boolean PRIMARY KEY DEFAULT true CHECK (one),
  -- Requests that were settled before this moment may be without their detail; 0: none was removed.
  pruned_before bigint NOT NULL DEFAULT 0,
  -- How many acts there are that are about no account, with the hash of the last; and how many checkpoints, likewise.
  acts          bigint NOT NULL DEFAULT 0,
  trail         bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex') CHECK (length(trail) = 32),
  checkpoints   bigint NOT NULL DEFAULT 0,
  checkpoint    bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex') CHECK (length(checkpoint) = 32)
);
INSERT INTO ledger DEFAULT VALUES;

-- The processes that have ever admitted requests here. One whose lease has lapsed or was given back writes nothing more.
CREATE TABLE nodes (
  node    text COLLATE "C" PRIMARY KEY, -- boot id
  name    text NOT NULL,                -- of the machine
  started timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires timestamptz NOT NULL,
  ended   timestamptz,                  -- when it was given back, or was found to have lapsed
  touched bigint NOT NULL DEFAULT 0,    -- counts what was written again because nobody knew whether it was
  learned text NOT NULL DEFAULT ''      -- names the last change of what is learned that it has made
);

CREATE TABLE prices (
  route            text COLLATE "C" NOT NULL,
  version          bigint NOT NULL CHECK (version > 0),
  input            bigint NOT NULL CHECK (input >= 0), -- microcents per million tokens, as are the others
  cache_read       bigint NOT NULL CHECK (cache_read >= 0),
  cache_write      bigint NOT NULL CHECK (cache_write >= 0),
  output           bigint NOT NULL CHECK (output >= 0),
  tiers            text NOT NULL, -- JSON, see config.Tier; '' for none
  cost_input       bigint NOT NULL CHECK (cost_input >= 0),
  cost_cache_read  bigint NOT NULL CHECK (cost_cache_read >= 0),
  cost_cache_write bigint NOT NULL CHECK (cost_cache_write >= 0),
  cost_output      bigint NOT NULL CHECK (cost_output >= 0),
  cost_tiers       text NOT NULL,
  since            bigint NOT NULL,
  PRIMARY KEY (route, version)
);

-- Which account has a name, and which key a hash: what no two accounts may share.
CREATE TABLE names (
  name    text COLLATE "C" PRIMARY KEY,
  account text COLLATE "C" NOT NULL
);
CREATE TABLE hashes (
  hash    bytea PRIMARY KEY CHECK (length(hash) = 32),
  account text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL
);

CREATE TABLE accounts (
  account text COLLATE "C" PRIMARY KEY,
  name    text COLLATE "C" NOT NULL,
  plan    text COLLATE "C" NOT NULL,
  state   text NOT NULL CHECK (state IN ('active', 'suspended', 'inactive')),
  created bigint NOT NULL,
  made    bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, -- for the order of lists
  -- What was set for the account, over its plan; NULL and '' where its plan decides.
  spend_cap           bigint CHECK (spend_cap >= 0),
  token_budget        bigint CHECK (token_budget >= 0),
  fair_use            bigint CHECK (fair_use >= 0),
  concurrent_requests bigint CHECK (concurrent_requests >= 0),
  key_requests        bigint CHECK (key_requests >= 0),
  account_requests    bigint CHECK (account_requests >= 0),
  address_requests    bigint CHECK (address_requests >= 0),
  profile             text NOT NULL,
  requires_region     text NOT NULL,
  requires_retention  text NOT NULL
);
CREATE INDEX accounts_made ON accounts (made, account);

-- What requests change of an account: one row for each. Who changes anything of an account locks it first.
CREATE TABLE balances (
  account  text COLLATE "C" PRIMARY KEY,
  credits  bigint NOT NULL,
  accrued  bigint NOT NULL CHECK (accrued BETWEEN 0 AND 999999),
  held     bigint NOT NULL CHECK (held >= 0), -- the sum of holds
  -- The head of the account's chain of entries, and how many it has.
  head     bytea NOT NULL CHECK (length(head) = 32),
  entries  bigint NOT NULL,
  requests bigint NOT NULL, -- settled ever
  -- What was charged, used and waived ever, and what it was when the current period began.
  spent         bigint NOT NULL,
  tokens        bigint NOT NULL,
  waived        bigint NOT NULL,
  spent_before  bigint NOT NULL,
  tokens_before bigint NOT NULL,
  waived_before bigint NOT NULL,
  -- The current period's number, its end, and whether it has its plan's credits; NULL without periods.
  period     bigint CHECK (period >= 0),
  period_end bigint,
  allotted   boolean,
  -- The chain of acts about the account.
  acts  bigint NOT NULL,
  trail bytea NOT NULL CHECK (length(trail) = 32),
  -- The line of keys that has paid last, with what is in its row of lines for all others, where it is old: so a request writes
  -- one row for its account and its key. NULL while none has paid.
  payer        text COLLATE "C",
  payer_cap    bigint CHECK (payer_cap >= 0),
  payer_spent  bigint,
  payer_before bigint,
  payer_held   bigint CHECK (payer_held >= 0)
) WITH (fillfactor = 50);

CREATE TABLE keys (
  account text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  hash    bytea NOT NULL CHECK (length(hash) = 32),
  last4   text NOT NULL,
  revoked boolean NOT NULL,
  created bigint NOT NULL,
  made    bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
  expires bigint,
  root    text COLLATE "C" NOT NULL, -- the first key of the line of keys that replaced one another, often this one
  PRIMARY KEY (account, key),
  UNIQUE (account, name)
);
CREATE INDEX keys_key ON keys (key);

-- What the keys of a line share, but of the line that has paid last (balances.payer): see key_lines.
CREATE TABLE lines (
  account      text COLLATE "C" NOT NULL,
  root         text COLLATE "C" NOT NULL,
  spend_cap    bigint NOT NULL CHECK (spend_cap >= 0), -- 0: none
  spent        bigint NOT NULL,                        -- ever
  spent_before bigint NOT NULL,                        -- when the account's current period began
  held         bigint NOT NULL CHECK (held >= 0),
  PRIMARY KEY (account, root)
) WITH (fillfactor = 50);
CREATE VIEW key_lines AS SELECT l.account, l.root,
  CASE WHEN b.payer = l.root THEN b.payer_cap ELSE l.spend_cap END AS spend_cap,
  CASE WHEN b.payer = l.root THEN b.payer_spent ELSE l.spent END AS spent,
  CASE WHEN b.payer = l.root THEN b.payer_before ELSE l.spent_before END AS spent_before,
  CASE WHEN b.payer = l.root THEN b.payer_held ELSE l.held END AS held
  FROM lines AS l JOIN balances AS b ON b.account = l.account;

-- The attempts of running requests. The first row of a request has its hold, others 0; a request that was held before its first
-- attempt has a row with the number 0.
CREATE TABLE holds (
  account       text COLLATE "C" NOT NULL,
  request       text COLLATE "C" NOT NULL,
  seq           bigint NOT NULL,
  key           text COLLATE "C" NOT NULL,
  owner         text COLLATE "C" NOT NULL,
  endpoint      text NOT NULL,
  profile       text NOT NULL,
  hold          bigint NOT NULL CHECK (hold >= 0),
  held_at       bigint NOT NULL,
  route         text NOT NULL,
  provider      text NOT NULL,
  model         text NOT NULL,
  price_version bigint NOT NULL,
  created       bigint NOT NULL,
  worst         bigint CHECK (worst >= 0), -- NULL: not known
  beside        boolean NOT NULL,
  reference     text NOT NULL,
  PRIMARY KEY (request, seq, account)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Settled requests, by month: ids of requests begin with the time.
CREATE TABLE requests (
  account       text COLLATE "C" NOT NULL,
  request       text COLLATE "C" NOT NULL,
  key           text COLLATE "C" NOT NULL,
  owner         text NOT NULL,
  endpoint      text NOT NULL,
  profile       text NOT NULL,
  hold          bigint NOT NULL, -- what it held at the end
  status        bigint NOT NULL, -- HTTP status; 0 when nobody knows
  reason        text NOT NULL,
  free          boolean NOT NULL,
  service_limit boolean NOT NULL,
  surcharge     bigint NOT NULL CHECK (surcharge >= 0),
  charge        bigint NOT NULL CHECK (charge >= 0), -- receipts included, as are the next three
  waived        bigint NOT NULL CHECK (waived >= 0),
  over          bigint NOT NULL CHECK (over >= 0),
  tokens        bigint NOT NULL CHECK (tokens >= 0), -- that count against the token budget
  refunded      bigint NOT NULL CHECK (refunded BETWEEN 0 AND charge),
  pending       boolean NOT NULL,
  created       bigint NOT NULL,
  settled       bigint NOT NULL,
  entry         bigint NOT NULL, -- the number of its charge among the account's entries
  PRIMARY KEY (request, account)
) PARTITION BY RANGE (request);
CREATE TABLE requests_rest PARTITION OF requests DEFAULT;

-- A token count is NULL when the upstream did not report it.
CREATE TABLE attempts (
  account         text COLLATE "C" NOT NULL,
  request         text COLLATE "C" NOT NULL,
  seq             bigint NOT NULL,
  route           text NOT NULL,
  provider        text NOT NULL,
  model           text NOT NULL,
  price_version   bigint NOT NULL,
  outcome         text NOT NULL CHECK (outcome IN ('finished', 'failed', 'unproven', 'not_made', 'closed')),
  input           bigint CHECK (input >= 0),
  cache_read      bigint CHECK (cache_read >= 0),
  cache_write     bigint CHECK (cache_write >= 0),
  output          bigint CHECK (output >= 0),
  reasoning       bigint CHECK (reasoning >= 0),
  estimated       boolean NOT NULL,
  created         bigint NOT NULL,
  receipt         bigint, -- when a later receipt proved it
  worst           bigint CHECK (worst >= 0),
  estimate_input  bigint CHECK (estimate_input >= 0), -- what it is taken to have used if no receipt comes
  estimate_output bigint CHECK (estimate_output >= 0),
  provider_key    text NOT NULL,
  operator        boolean NOT NULL,
  PRIMARY KEY (request, seq, account)
) PARTITION BY RANGE (request);
CREATE TABLE attempts_rest PARTITION OF attempts DEFAULT;

-- The attempts that wait for a receipt.
CREATE TABLE waiting (
  account      text COLLATE "C" NOT NULL,
  request      text COLLATE "C" NOT NULL,
  seq          bigint NOT NULL,
  provider     text COLLATE "C" NOT NULL,
  route        text NOT NULL,
  created      bigint NOT NULL,
  reference    text NOT NULL,
  provider_key text NOT NULL,
  PRIMARY KEY (request, seq, account)
);
CREATE INDEX waiting_for ON waiting (provider, created, request, seq);

-- The journal: append-only, numbered and chained by hash within an account.
CREATE TABLE entries (
  account    text COLLATE "C" NOT NULL,
  seq        bigint NOT NULL CHECK (seq > 0),
  kind       text NOT NULL CHECK (kind IN ('charge', 'top_up', 'receipt', 'closing', 'refund', 'adjustment', 'allotment')),
  book       text NOT NULL CHECK (book IN ('revenue', 'payments', 'adjustments', 'allotments')),
  request    text COLLATE "C",
  reference  text COLLATE "C",
  reason     text NOT NULL,
  prices     text NOT NULL,
  microcents bigint NOT NULL,
  waived     bigint NOT NULL CHECK (waived >= 0),
  over       bigint NOT NULL CHECK (over >= 0),
  tokens     bigint NOT NULL CHECK (tokens >= 0),
  detail     bytea CHECK (length(detail) = 32),
  credits    bigint NOT NULL,
  accrued    bigint NOT NULL CHECK (accrued BETWEEN 0 AND 999999),
  created    bigint NOT NULL,
  format     bigint NOT NULL,
  prev       bytea NOT NULL CHECK (length(prev) = 32),
  hash       bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (account, seq)
);
CREATE UNIQUE INDEX one_reference ON entries (account, (kind = 'allotment'), reference) WHERE reference IS NOT NULL;
CREATE INDEX later ON entries (account, request) WHERE kind IN ('receipt', 'closing', 'refund');

-- What operators did, numbered and chained by hash within an account, and within what is about none ('').
CREATE TABLE acts (
  account text COLLATE "C" NOT NULL,
  seq     bigint NOT NULL CHECK (seq > 0),
  created bigint NOT NULL,
  made    bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
  actor   text NOT NULL,
  action  text NOT NULL,
  subject text NOT NULL,
  before  text NOT NULL,
  after   text NOT NULL,
  format  bigint NOT NULL,
  prev    bytea NOT NULL CHECK (length(prev) = 32),
  hash    bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (account, seq)
);

CREATE TABLE checkpoints (
  n       bigint PRIMARY KEY CHECK (n > 0),
  entries bigint NOT NULL,
  acts    bigint NOT NULL,
  trail   bytea NOT NULL CHECK (length(trail) = 32),
  created bigint NOT NULL,
  prev    bytea NOT NULL CHECK (length(prev) = 32),
  hash    bytea NOT NULL CHECK (length(hash) = 32),
  format  bigint NOT NULL
);
-- The ends of the chains that a checkpoint hashes: of entries, and of acts, that grew since the one before.
CREATE TABLE heads (
  account    text COLLATE "C" NOT NULL, -- '' for acts about none
  checkpoint bigint NOT NULL,
  act        boolean NOT NULL,
  seq        bigint NOT NULL,
  hash       bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (account, act, seq)
);

-- What requests came to whose detail was removed, by key, day of the settlement (since 1970, in UTC) and route ('' for none).
CREATE TABLE pruned (
  account        text COLLATE "C" NOT NULL,
  key            text COLLATE "C" NOT NULL,
  day            bigint NOT NULL,
  route          text COLLATE "C" NOT NULL,
  parts          bigint NOT NULL, -- how many requests have a part in the row
  settled        bigint NOT NULL, -- each request once, on the last route that its account pays
  requests       bigint NOT NULL, -- like parts, without calls for comparison
  pending        bigint NOT NULL,
  whole_requests bigint NOT NULL,
  whole_pending  bigint NOT NULL,
  attempts       bigint NOT NULL,
  microcents     bigint NOT NULL,
  waived         bigint NOT NULL,
  over           bigint NOT NULL,
  refunded       bigint NOT NULL,
  cost           bigint NOT NULL,
  input          bigint,
  cache_read     bigint,
  cache_write    bigint,
  output         bigint,
  reasoning      bigint,
  estimated      bigint NOT NULL,
  tokens         bigint NOT NULL, -- that counted against the token budget
  PRIMARY KEY (account, key, day, route)
);

CREATE TABLE learned (
  route  text COLLATE "C" NOT NULL,
  model  text COLLATE "C" NOT NULL,
  kind   text COLLATE "C" NOT NULL,
  worked double precision NOT NULL,
  failed double precision NOT NULL,
  good   double precision NOT NULL,
  bad    double precision NOT NULL,
  at     bigint NOT NULL,
  PRIMARY KEY (route, model, kind)
);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% are append-only', TG_TABLE_NAME;
END $$;
-- +goose StatementEnd
CREATE TRIGGER entries_keep BEFORE UPDATE OR DELETE ON entries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entries_stay BEFORE TRUNCATE ON entries EXECUTE FUNCTION refuse_change();
CREATE TRIGGER acts_keep BEFORE UPDATE OR DELETE ON acts FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER acts_stay BEFORE TRUNCATE ON acts EXECUTE FUNCTION refuse_change();
CREATE TRIGGER prices_keep BEFORE UPDATE OR DELETE ON prices FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER prices_stay BEFORE TRUNCATE ON prices EXECUTE FUNCTION refuse_change();
CREATE TRIGGER checkpoints_keep BEFORE UPDATE OR DELETE ON checkpoints FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER checkpoints_stay BEFORE TRUNCATE ON checkpoints EXECUTE FUNCTION refuse_change();
