-- The tiers of a price: JSON, an array of objects with the least input in tokens (above) and a price of each class; '' for none.
ALTER TABLE prices ADD COLUMN tiers      TEXT NOT NULL DEFAULT '';
ALTER TABLE prices ADD COLUMN cost_tiers TEXT NOT NULL DEFAULT '';

-- What happened to a request after its settlement. A list in the condition was made anew for each entry, also for charges.
DROP INDEX later;
CREATE INDEX later ON entries (request) WHERE kind = 'receipt' OR kind = 'closing' OR kind = 'refund';
