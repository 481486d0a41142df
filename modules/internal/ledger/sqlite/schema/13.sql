-- Entries have format 4: charges are bounded by the worst of each attempt as well (GAP-123). Nothing is changed here; that a
-- fareway of before, which knows no such entry, does not go on with this ledger, is what the version says.
SELECT 1;
