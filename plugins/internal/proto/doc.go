// Package proto is the protocol between the gateway and its provider plugins; provider.proto is its
// specification. It is for packages plugins/internal/wire, plugins/host, plugins/provider and
// plugins/providertest only: everyone else speaks package llm.
//
// The generated files are part of the repository, so that building needs the Go toolchain only; generating
// them needs nothing more (see gen).
package proto

import _ "embed" // of the specification

//go:generate go run ./gen

// Document is provider.proto.
//
//go:embed provider.proto
var Document string
