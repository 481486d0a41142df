package reply

import "github.com/fareway/fareway/plugins/llm"

// Blocks are the calls of a reply that comes in blocks with indexes. The zero value is ready to use.
type Blocks struct {
	calls map[int64]*Call // that are open; nil for one that the upstream makes itself
}

// Begin notes that a block is a call; nil is for one that the upstream makes itself.
func (b *Blocks) Begin(index int64, call *Call) {
	if b.calls == nil {
		b.calls = make(map[int64]*Call)
	}
	b.calls[index] = call
}

// Again reports whether a block that begins was begun before: some gateways say so twice.
func (b *Blocks) Again(index int64, id, name string) bool {
	call := b.calls[index]
	return call != nil && id != "" && call.id == id && call.name == name && !call.hasArguments()
}

// Call is the call whose arguments come with that index, nil for one that the upstream makes itself. Where no block
// has it, for some gateways give another index than the block's, they are those of the one that is open, or of the
// one of several whose arguments are not whole. Arguments of no call, and of any of several, are an error of kind
// llm.ErrProtocol.
func (b *Blocks) Call(index int64) (*Call, error) {
	if call, known := b.calls[index]; known {
		return call, nil
	}
	var open, unfinished []*Call
	for _, call := range b.calls {
		if call != nil {
			open = append(open, call)
			if !call.so.whole {
				unfinished = append(unfinished, call)
			}
		}
	}
	switch {
	case len(open) == 0:
		return nil, llm.Errorf(llm.ErrProtocol, "the upstream sent arguments of a call that it had not begun")
	case len(open) == 1:
		return open[0], nil
	case len(unfinished) == 1:
		return unfinished[0], nil
	}
	return nil, llm.Errorf(llm.ErrProtocol, "the upstream sent arguments without saying of which of its calls")
}

// End ends the block with that index.
func (b *Blocks) End(index int64) error {
	call := b.calls[index]
	delete(b.calls, index)
	if call == nil {
		return nil
	}
	return call.End()
}
