-- The addresses of who is told what is about the account, with commas between them; '' for nobody.
ALTER TABLE accounts ADD COLUMN mail TEXT NOT NULL DEFAULT '';
