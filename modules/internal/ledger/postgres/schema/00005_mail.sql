-- +goose Up
-- The addresses of who is told what is about the account, with commas between them; '' for nobody. Nodes that do not know it write
-- their accounts without.
ALTER TABLE accounts ADD COLUMN mail text NOT NULL DEFAULT '';
