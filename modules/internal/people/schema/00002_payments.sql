-- +goose Up
-- What accounts pay with. Amounts are in the smallest unit of their currency.
CREATE TABLE portal_payments (
  id TEXT NOT NULL PRIMARY KEY,
  account TEXT NOT NULL,
  kind TEXT NOT NULL, -- 'checkout': somebody pays; 'automatic': a top-up of its own
  made_by TEXT NOT NULL,
  credits BIGINT NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  live BIGINT NOT NULL, -- real money
  state TEXT NOT NULL,
  why TEXT NOT NULL,
  session TEXT NOT NULL, -- of Stripe's Checkout; '': none, or nobody knows yet
  intent TEXT NOT NULL, -- Stripe's PaymentIntent
  customer TEXT NOT NULL, -- of Stripe's, and what a top-up is paid with: a call that is repeated has to be the same
  method TEXT NOT NULL,
  refunded BIGINT NOT NULL, -- how much of the amount was given back, by what Stripe says last
  lost BIGINT NOT NULL, -- and how much in disputes
  disputed TEXT NOT NULL,
  created BIGINT NOT NULL,
  changed BIGINT NOT NULL
);
CREATE INDEX portal_payments_account ON portal_payments (account, created, id);
CREATE INDEX portal_payments_state ON portal_payments (state, changed);
CREATE INDEX portal_payments_disputed ON portal_payments (disputed);
CREATE INDEX portal_payments_intent ON portal_payments (intent);

-- What of a payment was given back, step by step: each takes credits away, once.
CREATE TABLE portal_refunds (
  payment TEXT NOT NULL REFERENCES portal_payments (id),
  refunded BIGINT NOT NULL, -- of the amount, with this step and whatever was lost
  dispute TEXT NOT NULL, -- Stripe's, where it was lost in one
  microcents BIGINT NOT NULL, -- that this step takes away
  reason TEXT NOT NULL,
  booked BIGINT NOT NULL,
  PRIMARY KEY (payment, refunded)
);
CREATE INDEX portal_refunds_booked ON portal_refunds (booked);

-- Top-ups that an account makes by itself.
CREATE TABLE portal_top_ups (
  account TEXT NOT NULL PRIMARY KEY,
  active BIGINT NOT NULL,
  threshold BIGINT NOT NULL, -- credits
  credits BIGINT NOT NULL, -- of one
  monthly BIGINT NOT NULL, -- the most credits in a month of UTC
  amount BIGINT NOT NULL, -- what one cost when the owner agreed to it
  currency TEXT NOT NULL,
  customer TEXT NOT NULL, -- Stripe's
  method TEXT NOT NULL, -- what is paid with; '': nobody has consented
  method_text TEXT NOT NULL, -- for people: 'visa 4242'
  failures BIGINT NOT NULL, -- in a row
  next BIGINT NOT NULL, -- when it is tried again after one
  why TEXT NOT NULL, -- it is not active, or what failed last
  made_by TEXT NOT NULL,
  changed BIGINT NOT NULL
);
CREATE INDEX portal_top_ups_active ON portal_top_ups (active, account);
