-- What was set for one account, over its plan; NULL and '' where its plan decides. The unit is that of the plan's terms.
ALTER TABLE accounts ADD COLUMN spend_cap           INTEGER CHECK (spend_cap >= 0);
ALTER TABLE accounts ADD COLUMN token_budget        INTEGER CHECK (token_budget >= 0);
ALTER TABLE accounts ADD COLUMN fair_use            INTEGER CHECK (fair_use >= 0);
ALTER TABLE accounts ADD COLUMN concurrent_requests INTEGER CHECK (concurrent_requests >= 0);
ALTER TABLE accounts ADD COLUMN key_requests        INTEGER CHECK (key_requests >= 0);
ALTER TABLE accounts ADD COLUMN account_requests    INTEGER CHECK (account_requests >= 0);
ALTER TABLE accounts ADD COLUMN address_requests    INTEGER CHECK (address_requests >= 0);
ALTER TABLE accounts ADD COLUMN profile             TEXT NOT NULL DEFAULT '' CHECK (profile IN ('', 'budget', 'balanced', 'max'));

-- Whether the current period has its plan's credits: 1 once they were added, or could not be; NULL without periods. They used
-- to be added at a period's end only, and that a new fareway runs moves no money: a period that has begun goes on as it was.
ALTER TABLE accounts ADD COLUMN allotted INTEGER CHECK (allotted IN (0, 1));
UPDATE accounts SET allotted = 1 WHERE period IS NOT NULL;
CREATE INDEX unallotted ON accounts (plan) WHERE allotted = 0;
