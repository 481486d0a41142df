-- What settled requests came to, by day of the settlement (since 1970, in UTC), key, and route that was tried ('' for none):
-- those that lie up to meta.summed in the journal, and those before that have no entry. Amounts of a request are divided over
-- its routes, see ledger.UsageRow. What is of requests whose detail was pruned is in rows of its own. Those that were pruned
-- before there were sums are of the day -200000: nobody knows theirs, nor what their upstreams cost.
CREATE TABLE days (
  day            INTEGER NOT NULL,
  key            INTEGER NOT NULL,
  route          TEXT NOT NULL,
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
  PRIMARY KEY (day, key, route, pruned)
) STRICT, WITHOUT ROWID;
INSERT INTO days SELECT -200000, key, '', 1, requests, requests, requests, 0, requests, 0, 0, charge, waived, 0, refunded, 0,
  NULL, NULL, NULL, NULL, NULL, 0 FROM pruned;
-- The last settlement in the journal whose request is in days.
ALTER TABLE meta ADD COLUMN summed INTEGER NOT NULL DEFAULT 0;
