package jsonview

import "golang.org/x/sys/cpu"

// wide says that this machine has what plainBlocks needs.
var wide = cpu.X86.HasAVX2

// plainBlocks passes by what can stand inside of a string, in blocks of 32 bytes: up to its end, to a mistake or to an
// escape of a code unit, and otherwise to what does not fill a block. It never ends within an escape. beyondASCII is
// true, too, where that is only behind n in the last block.
//
//go:noescape
func plainBlocks(b []byte) (n int, beyondASCII bool)
