// Package wire translates between the canonical model (package llm) and the plugin protocol (package
// proto), in both directions, and holds what both sides must agree on: the handshake, the size limits and
// the legal order of events. It is for packages plugins/provider (the plugin's side), plugins/host (the
// gateway's side) and plugins/providertest only.
package wire
