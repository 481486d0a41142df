-- Times are nanoseconds since 1970 in UTC. Money is in microcents unless a column says credits.
--
-- A charge is at most its hold (GAP-110), and what a row says of a request is in what is hashed. Each settlement, receipt and
-- closing makes an entry therefore, also one that moves nothing. Rows from before are as they were: an attempt of theirs has no
-- `worst`, an entry or an act of theirs has an older format, and both are verified by the rules of their time.

-- The most that the attempt may cost, and what it is taken to have used if no receipt comes; NULL: not known, and nothing.
ALTER TABLE holds    ADD COLUMN worst INTEGER CHECK (worst >= 0);
ALTER TABLE attempts ADD COLUMN worst INTEGER CHECK (worst >= 0);
ALTER TABLE attempts ADD COLUMN estimate_input  INTEGER CHECK (estimate_input >= 0);
ALTER TABLE attempts ADD COLUMN estimate_output INTEGER CHECK (estimate_output >= 0);
-- What the usage comes to beyond what was held, receipts included.
ALTER TABLE requests ADD COLUMN over INTEGER NOT NULL DEFAULT 0 CHECK (over >= 0);

-- What the rows of holds are, as a number: that of each is in it (see holdMark). Those without `worst` are in none.
ALTER TABLE meta ADD COLUMN marks INTEGER NOT NULL DEFAULT 0;
-- How often holds that nobody knew of were released.
ALTER TABLE meta ADD COLUMN releases INTEGER NOT NULL DEFAULT 0;
-- How many acts there are that are about no account, with the hash of the last; and how many checkpoints, in the same way.
ALTER TABLE meta ADD COLUMN acts        INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN trail       BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';
ALTER TABLE meta ADD COLUMN checkpoints INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN checkpoint  BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';
-- How many acts there are about the account, and the hash of the last.
ALTER TABLE accounts ADD COLUMN acts  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN trail BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';

-- The journal: append-only, numbered and chained by hash within an account. n is where the row lies in this file: it is in no
-- hash since format 3 and is shown to nobody. `before` is that of the account's entry before this one.
CREATE TABLE entries_5 (
  n          INTEGER PRIMARY KEY,
  account    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  before     INTEGER,
  kind       TEXT NOT NULL CHECK (kind = 'charge' OR kind IN ('top_up', 'receipt', 'closing', 'refund', 'adjustment', 'allotment')),
  book       TEXT NOT NULL CHECK (book = 'revenue' OR book IN ('payments', 'adjustments', 'allotments')),
  request    TEXT,
  reference  TEXT,
  reason     TEXT NOT NULL,
  prices     TEXT NOT NULL,
  microcents INTEGER NOT NULL, -- what it adds to the account's worth and takes from the book
  waived     INTEGER NOT NULL CHECK (waived >= 0), -- what it left free; this and the two below are of charges, receipts and closings
  over       INTEGER NOT NULL CHECK (over >= 0), -- what was used beyond what was held
  tokens     INTEGER NOT NULL CHECK (tokens >= 0), -- what it counted against the token budget
  detail     BLOB CHECK (length(detail) = 32), -- hash of what it is about; NULL before format 3 and where that is no request
  credits    INTEGER NOT NULL, -- balance after it
  accrued    INTEGER NOT NULL CHECK (accrued BETWEEN 0 AND 999999), -- after it
  created    INTEGER NOT NULL,
  format     INTEGER NOT NULL,
  prev       BLOB NOT NULL CHECK (length(prev) = 32),
  hash       BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO entries_5 (n, account, seq, before, kind, book, request, reference, reason, prices, microcents, waived, over, tokens, detail,
    credits, accrued, created, format, prev, hash)
  SELECT n, account, seq, before, kind, book, request, reference, reason, prices, microcents, 0, 0, 0, NULL,
    credits, accrued, created, format, prev, hash FROM entries ORDER BY n;
DROP TABLE entries;
ALTER TABLE entries_5 RENAME TO entries;
CREATE UNIQUE INDEX one_reference ON entries (account, kind = 'allotment', reference) WHERE reference IS NOT NULL;
-- What happened to a request after its settlement, whose entry the request's row names. Charges are not in it.
CREATE INDEX later ON entries (request) WHERE kind IN ('receipt', 'closing', 'refund');
CREATE TRIGGER entries_keep BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

-- What operators did, numbered and chained by hash within an account, and within what is about none. n is where the row lies, as in
-- entries; up to format 1 it was a number of all acts and in their hash, and so was the act before.
CREATE TABLE audit_5 (
  n       INTEGER PRIMARY KEY,
  created INTEGER NOT NULL,
  actor   TEXT NOT NULL,
  action  TEXT NOT NULL,
  account INTEGER,
  subject TEXT NOT NULL,
  before  TEXT NOT NULL,
  after   TEXT NOT NULL,
  prev    BLOB NOT NULL CHECK (length(prev) = 32),
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  seq     INTEGER NOT NULL,
  format  INTEGER NOT NULL
) STRICT;
INSERT INTO audit_5 (n, created, actor, action, account, subject, before, after, prev, hash, seq, format)
  SELECT n, created, actor, action, account, subject, before, after, prev, hash, row_number() OVER (PARTITION BY account ORDER BY n), 1
  FROM audit ORDER BY n;
DROP TABLE audit;
ALTER TABLE audit_5 RENAME TO audit;
CREATE TRIGGER audit_keep BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_stay BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
-- Of each group the hash is that of the row with the largest n (SQLite, "bare columns in an aggregate query").
UPDATE accounts SET acts = u.seq, trail = u.hash FROM (SELECT account, max(n), seq, hash FROM audit GROUP BY account) AS u WHERE u.account = accounts.n;
UPDATE meta SET acts = u.seq, trail = u.hash FROM (SELECT max(n), seq, hash FROM audit WHERE account IS NULL GROUP BY account) AS u;

CREATE TABLE checkpoints_5 (
  n       INTEGER PRIMARY KEY,
  entries INTEGER NOT NULL, -- how many entries the journal had
  created INTEGER NOT NULL,
  prev    BLOB NOT NULL CHECK (length(prev) = 32),
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  format  INTEGER NOT NULL CHECK (format IN (1, 2, 3)),
  acts    INTEGER NOT NULL, -- how many acts the audit trail had
  trail   BLOB NOT NULL CHECK (length(trail) = 32) -- of format 2 the hash of the last act, of format 3 of the heads that moved
) STRICT;
INSERT INTO checkpoints_5 (n, entries, created, prev, hash, format, acts, trail)
  SELECT n, entries, created, prev, hash, format, acts, trail FROM checkpoints ORDER BY n;
DROP TABLE checkpoints;
ALTER TABLE checkpoints_5 RENAME TO checkpoints;
CREATE TRIGGER checkpoints_keep BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
CREATE TRIGGER checkpoints_stay BEFORE UPDATE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;
UPDATE meta SET checkpoints = c.n, checkpoint = c.hash FROM (SELECT max(n) AS n, hash FROM checkpoints) AS c WHERE c.n IS NOT NULL;
