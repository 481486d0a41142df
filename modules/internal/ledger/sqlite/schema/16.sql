-- Entries have format 5: of what ended at a limit of the service they leave free what fits in the fair-use allowance, and charge
-- only what goes beyond, so that both are in one entry (GAP-135). Up to format 4 an entry did the one or the other, and is
-- verified by that. Nothing is changed here; that a fareway of before, which knows no such entry, does not go on with this
-- ledger, is what the version says.
SELECT 1;
