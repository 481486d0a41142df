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
