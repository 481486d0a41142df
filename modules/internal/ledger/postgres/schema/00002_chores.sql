-- +goose Up
-- What one node at a time does, such as ending periods. The node of a row whose time is over has lost it.
CREATE TABLE chores (
  name    text COLLATE "C" PRIMARY KEY,
  node    text COLLATE "C" NOT NULL,
  expires timestamptz NOT NULL
);
