-- +goose NO TRANSACTION
-- +goose Up
-- Other nodes go on meanwhile: nothing here keeps them waiting, and each statement may be repeated.

-- What the account's owner lets it spend in a period, in microcents, below what its operator does; NULL for no cap of theirs. Nodes
-- that do not know it leave it as it is, and do not keep it.
-- +goose StatementBegin
DO $$ BEGIN
  PERFORM set_config('lock_timeout', '1s', true); -- behind a lock that waits, everybody else's reads would wait
  ALTER TABLE accounts ADD COLUMN IF NOT EXISTS own_spend_cap_microcents bigint;
  IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'accounts'::regclass AND conname = 'own_spend_cap') THEN
    ALTER TABLE accounts ADD CONSTRAINT own_spend_cap CHECK (own_spend_cap_microcents > 0) NOT VALID; -- there is none yet
  END IF;
END $$;
-- +goose StatementEnd
ALTER TABLE accounts VALIDATE CONSTRAINT own_spend_cap;

-- What moved an account's money and is no use of it: few entries are that. One that was not finished is of no use.
DROP INDEX CONCURRENTLY IF EXISTS movements;
CREATE INDEX CONCURRENTLY movements ON entries (account, seq) WHERE kind NOT IN ('charge', 'receipt', 'closing');

-- A page of an account's keys.
DROP INDEX CONCURRENTLY IF EXISTS keys_made;
CREATE INDEX CONCURRENTLY keys_made ON keys (account, made, key);

-- What settled requests come to by key, day of the settlement, route and profile, whether they are pruned or not; and with the key '' by
-- account. Those are in it whose entries are up to summed.entry, but not those that waited for a receipt then: the journal says what has
-- changed since. Nothing but a chore writes it (and pruning, the last two columns).
CREATE TABLE IF NOT EXISTS days (
  account        text COLLATE "C" NOT NULL,
  key            text COLLATE "C" NOT NULL,
  day            bigint NOT NULL,
  route          text COLLATE "C" NOT NULL,
  profile        text COLLATE "C" NOT NULL, -- '' of what was pruned before there were these sums
  parts          bigint NOT NULL,           -- this and the following are as in pruned
  settled        bigint NOT NULL,
  requests       bigint NOT NULL,
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
  gone           bigint NOT NULL DEFAULT 0, -- of requests, those that are pruned
  gone_wholes    bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (account, key, day, route, profile)
) PARTITION BY LIST (key); -- so that the few of accounts lie together
CREATE TABLE IF NOT EXISTS days_of_accounts PARTITION OF days FOR VALUES IN ('');
CREATE TABLE IF NOT EXISTS days_of_keys PARTITION OF days DEFAULT;
CREATE INDEX IF NOT EXISTS days_of_accounts_day ON days_of_accounts (day);

-- Up to which of its entries an account's requests are in days. An account that is not here has no sums.
CREATE TABLE IF NOT EXISTS summed (
  account text COLLATE "C" PRIMARY KEY,
  entry   bigint NOT NULL,
  broken  boolean NOT NULL -- a node that knows no sums has pruned what was not in them yet: they are made anew
);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION break_sums() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE summed AS s SET broken = true WHERE s.account = OLD.account AND NOT s.broken AND (s.entry < OLD.entry OR s.entry <
    (SELECT max(e.seq) FROM entries AS e WHERE e.account = OLD.account AND e.request = OLD.request
      AND e.kind IN ('receipt', 'closing', 'refund')));
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$ BEGIN
  PERFORM set_config('lock_timeout', '1s', true);
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'requests'::regclass AND tgname = 'break_sums') THEN
    CREATE TRIGGER break_sums AFTER DELETE ON requests FOR EACH ROW EXECUTE FUNCTION break_sums();
  END IF;
END $$;
-- +goose StatementEnd
