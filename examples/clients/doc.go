// Package clients holds what it takes to use the gateway with real clients: small programs for client libraries
// (node, go), the packages of coding agents (agents), and a suite that runs all of them against bin/fareway over
// the scripted upstream. `make clients` installs and runs it; README.md says what each client needs.
//
// Nothing imports this package.
package clients
