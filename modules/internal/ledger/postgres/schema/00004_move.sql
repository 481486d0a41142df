-- +goose Up
-- The number among those of all accounts that an entry of format 1 or 2, and an act of format 1, was given by an older ledger that
-- was moved here; NULL for what was made since.
ALTER TABLE entries ADD COLUMN n bigint;
ALTER TABLE acts ADD COLUMN n bigint;

-- Moves of a ledger into this database. It is served by nobody until its move is done.
CREATE TABLE moves (
  move   text COLLATE "C" PRIMARY KEY,
  source text NOT NULL, -- the machine and the file that it comes from
  state  text NOT NULL CHECK (state IN ('copying', 'whole', 'done', 'undone')),
  begun  timestamptz NOT NULL DEFAULT clock_timestamp(),
  done   timestamptz
);
-- How far the tables have come.
CREATE TABLE moved (
  move     text COLLATE "C" NOT NULL,
  "table"  text COLLATE "C" NOT NULL,
  position text NOT NULL, -- the key of the last row, as JSON; '' for all
  rows     bigint NOT NULL,
  PRIMARY KEY (move, "table")
);
