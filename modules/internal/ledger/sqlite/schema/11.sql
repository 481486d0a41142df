-- What an account requires of routes besides its plan: names with commas between them, and "none" or a duration; '' for nothing.
ALTER TABLE accounts ADD COLUMN requires_region    TEXT NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN requires_retention TEXT NOT NULL DEFAULT '';
