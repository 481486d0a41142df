package predict

import (
	_ "embed"
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

// Default is the model that is built in.
func Default() *Model { return decoded() }
