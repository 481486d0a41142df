-- The tiers of a price: JSON, an array of objects with the least input in tokens (above) and a price of each class; '' for none.
ALTER TABLE prices ADD COLUMN tiers      TEXT NOT NULL DEFAULT '';
ALTER TABLE prices ADD COLUMN cost_tiers TEXT NOT NULL DEFAULT '';
