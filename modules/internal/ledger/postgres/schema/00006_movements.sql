-- +goose Up
-- What moved an account's money and is no use of it: few entries are that.
CREATE INDEX movements ON entries (account, seq) WHERE kind NOT IN ('charge', 'receipt', 'closing');
