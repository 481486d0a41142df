-- What moved an account's money and is no use of it: few entries are that, and the others cost it no more than a look at their kind.
CREATE INDEX movements ON entries (account) WHERE kind <> 'charge' AND kind <> 'receipt' AND kind <> 'closing';
