package predict

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"sync"
)

// builtIn is what `fareway gateway route train` has made; README.md says of what.
//
//go:embed default.model
var builtIn []byte

var decoded = sync.OnceValue(func() *Model {
	m, err := Decode(builtIn)
	if err != nil {
		// The file is part of the program, and its test reads it.
		panic(err)
	}
	return m
})

// DefaultSHA256 is the digest of its file, in hex.
func DefaultSHA256() string {
	return fmt.Sprintf("%x", sha256.Sum256(builtIn))
}

// Default is the model that is built in.
func Default() *Model { return decoded() }
