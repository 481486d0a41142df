-- What the account's owner lets it spend in a period, in microcents, below what its operator does; NULL for no cap of theirs.
ALTER TABLE accounts ADD COLUMN own_spend_cap_microcents INTEGER CHECK (own_spend_cap_microcents > 0);
