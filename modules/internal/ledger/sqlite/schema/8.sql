-- The name of the provider's key that an attempt was made with; '' where the provider has none.
ALTER TABLE attempts ADD COLUMN provider_key TEXT NOT NULL DEFAULT '';
