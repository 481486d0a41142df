-- What TestSoakPages looks at: ten million requests of the year before now (temp.fill has when that is, and how many), of 10,000
-- accounts. Account 1 has nine of ten, by 2,000 keys besides its own, which was used for the first fifty alone, as was the route
-- "rare". Sums, links and numbers are right; hashes are not, which pages don't recompute.
INSERT INTO owners (boot_id, pid, started) VALUES ('fill', 1, 1);
INSERT INTO prices (route, version, input, cache_read, cache_write, output, since)
  SELECT value, 1, 300000000, 30000000, 375000000, 1500000000, 0 FROM json_each('["small", "deep", "rare"]');
INSERT INTO accounts (n, id, name, plan, state, created)
  WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 10000)
  SELECT i, printf('acct_%024x', i), 'account ' || i, 'starter', 'active', first FROM g, fill;
INSERT INTO keys (n, id, account, name, hash, last4, created, root)
  WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 12000)
  SELECT i, printf('key_%024x', i), iif(i > 10000, 1, i), 'key ' || i, randomblob(32), printf('%04x', i % 65536), first, i
  FROM g, fill;
INSERT INTO entries (n, account, seq, kind, book, reason, prices, microcents, waived, over, tokens, credits, accrued, created,
    format, prev, hash)
  SELECT n, n, 1, 'top_up', 'payments', '', '', 10000000000000, 0, 0, 0, 10000000, 0, created, 2, zeroblob(32), randomblob(32)
  FROM accounts;
CREATE TEMP TABLE settled AS
  WITH RECURSIVE g(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM g, fill WHERE i + 1 < fill.requests)
  SELECT i, 10001 + i AS n, first + i * step AS at, iif(i % 10 > 0, 1, 2 + i / 10 % 9999) AS account,
    CASE WHEN i % 10 = 0 THEN 2 + i / 10 % 9999 WHEN i < 55 THEN 1 ELSE 10001 + i * 7919 % 2000 END AS key,
    CASE WHEN i < 55 THEN 'rare' WHEN i % 10 = 3 THEN 'deep' ELSE 'small' END AS route,
    iif(i % 10 = 0, 2 + i / 99990, 1 + i - i / 10) AS seq,
    CASE WHEN i % 10 = 0 THEN iif(i < 99990, 2 + i / 10, 10001 + i - 99990) WHEN i = 1 THEN 1 WHEN i % 10 = 1 THEN 9999 + i
      ELSE 10000 + i END AS before,
    iif(i % 1000 = 7, 502, 200) AS status
  FROM g, fill;
INSERT INTO entries (n, account, seq, before, kind, book, request, reason, prices, microcents, waived, over, tokens, credits,
    accrued, created, format, prev, hash)
  SELECT n, account, seq, before, 'charge', 'revenue', printf('req_%012x%012x', at / 1000000, i), 'ok', route || '@1', -1335000,
    0, 0, 1650, 10000000 - seq * 2, 0, at, 2, zeroblob(32), randomblob(32) FROM settled;
INSERT INTO requests (id, account, key, owner, endpoint, profile, hold, status, reason, free, service_limit, surcharge, charge,
    waived, tokens, pending, created, settled, entry)
  SELECT printf('req_%012x%012x', at / 1000000, i), account, key, 'fill', 'chat', 'balanced', 5000000, status, 'ok', 0, 0, 0,
    1335000, 0, 1650, 0, at - 1000000000, at, n FROM settled;
INSERT INTO attempts (request, seq, route, provider, model, price_version, outcome, input, output, estimated, created)
  SELECT printf('req_%012x%012x', at / 1000000, i), 1, route, 'up', route || '-1', 1, 'finished', 950, 700, 0, at - 1000000000
  FROM settled;
INSERT INTO days (day, account, key, route, profile, pruned, parts, settled, requests, pending, whole_requests, whole_pending, attempts, microcents,
    waived, over, refunded, cost, input, output, estimated)
  SELECT at / 86400000000000 AS day, account, key, route, 'balanced', 0, count(*), count(*), count(*), 0, count(*), 0, count(*), 1335000 * count(*), 0,
    0, 0, 0, 950 * count(*), 700 * count(*), 0 FROM settled GROUP BY day, key, route;
INSERT INTO days (day, account, key, route, profile, pruned, parts, settled, requests, pending, whole_requests, whole_pending,
    attempts, microcents, waived, over, refunded, cost, input, output, estimated)
  SELECT at / 86400000000000 AS day, account, 0, route, 'balanced', 0, count(*), count(*), count(*), 0, count(*), 0, count(*),
    1335000 * count(*), 0, 0, 0, 0, 950 * count(*), 700 * count(*), 0 FROM settled GROUP BY day, account, route
  UNION ALL SELECT at / 86400000000000 AS day, 0, 0, route, 'balanced', 0, count(*), count(*), count(*), 0, count(*), 0, count(*),
    1335000 * count(*), 0, 0, 0, 0, 950 * count(*), 700 * count(*), 0 FROM settled GROUP BY day, route;
INSERT INTO balances (n, credits, head, last, entries, requests, spent, tokens)
  SELECT account, 1000000, randomblob(32), max(n), 1 + count(*), count(*), 1335000 * count(*), 1650 * count(*) FROM settled
  GROUP BY account;
UPDATE meta SET summed = (SELECT max(n) FROM entries);
DROP TABLE temp.settled;
