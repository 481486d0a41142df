-- +goose Up
-- What the account's owner lets it spend in a period, in microcents, below what its operator does; NULL for no cap of theirs. Nodes
-- that do not know it leave it as it is, and do not keep it.
ALTER TABLE accounts ADD COLUMN own_spend_cap_microcents bigint CHECK (own_spend_cap_microcents > 0);
