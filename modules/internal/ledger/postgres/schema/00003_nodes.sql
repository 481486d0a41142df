-- +goose Up
-- What a node says of itself when it renews its lease: JSON, see ledger.About.
ALTER TABLE nodes ADD COLUMN about text NOT NULL DEFAULT '{}';
