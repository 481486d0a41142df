-- The sums of days by the profile of the requests as well, and beside those of keys what they come to by account (key 0) and in the
-- whole ledger (account 0 and key 0), so that these are read without the rows of keys. A key's rows of a day lie beside those of its
-- account's other keys. The profile of what was pruned before is '', which nobody knows. That of what was summed before and is not
-- pruned is '?' until a chore has added it: of the requests up to meta.unprofiled in the journal (or without an entry), those whose
-- ids are behind meta.profiled. That is NULL where there are none.
ALTER TABLE days RENAME TO days_20;
CREATE TABLE days (
  day            INTEGER NOT NULL,
  account        INTEGER NOT NULL,
  key            INTEGER NOT NULL,
  route          TEXT NOT NULL,
  profile        TEXT NOT NULL,
  pruned         INTEGER NOT NULL CHECK (pruned IN (0, 1)),
  parts          INTEGER NOT NULL, -- how many requests have a part in the row; none is without one
  settled        INTEGER NOT NULL, -- each request once, on the last route that its account pays
  requests       INTEGER NOT NULL, -- like parts, without calls for comparison
  pending        INTEGER NOT NULL, -- of those
  whole_requests INTEGER NOT NULL, -- like settled, without calls for comparison
  whole_pending  INTEGER NOT NULL,
  attempts       INTEGER NOT NULL,
  microcents     INTEGER NOT NULL,
  waived         INTEGER NOT NULL,
  over           INTEGER NOT NULL,
  refunded       INTEGER NOT NULL,
  cost           INTEGER NOT NULL,
  input          INTEGER, -- of tokens; NULL where none was ever reported
  cache_read     INTEGER,
  cache_write    INTEGER,
  output         INTEGER,
  reasoning      INTEGER,
  estimated      INTEGER NOT NULL, -- attempts whose tokens the provider counted
  PRIMARY KEY (day, account, key, route, profile, pruned)
) STRICT, WITHOUT ROWID;
INSERT INTO days SELECT d.day, k.account, d.key, d.route, iif(d.pruned, '', '?'), d.pruned, d.parts, d.settled, d.requests, d.pending,
    d.whole_requests, d.whole_pending, d.attempts, d.microcents, d.waived, d.over, d.refunded, d.cost, d.input, d.cache_read,
    d.cache_write, d.output, d.reasoning, d.estimated
  FROM days_20 AS d CROSS JOIN keys AS k ON k.n = d.key ORDER BY d.day, k.account, d.key;
DROP TABLE days_20;
INSERT INTO days SELECT day, account, 0, route, profile, pruned, sum(parts), sum(settled), sum(requests), sum(pending),
    sum(whole_requests), sum(whole_pending), sum(attempts), sum(microcents), sum(waived), sum(over), sum(refunded), sum(cost),
    sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(estimated)
  FROM days GROUP BY day, account, route, profile, pruned;
INSERT INTO days SELECT day, 0, 0, route, profile, pruned, sum(parts), sum(settled), sum(requests), sum(pending),
    sum(whole_requests), sum(whole_pending), sum(attempts), sum(microcents), sum(waived), sum(over), sum(refunded), sum(cost),
    sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(estimated)
  FROM days WHERE key = 0 GROUP BY day, route, profile, pruned;
ALTER TABLE meta ADD COLUMN unprofiled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN profiled TEXT;
UPDATE meta SET unprofiled = summed, profiled = '' WHERE EXISTS (SELECT 1 FROM days WHERE NOT pruned);
