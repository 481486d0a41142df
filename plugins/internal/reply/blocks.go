package reply

import "github.com/fareway/fareway/plugins/llm"

// Blocks are the calls of a reply that comes in blocks with indexes. The zero value is ready to use.
type Blocks struct {
	calls map[int64]*Call // that are open; nil for one that the upstream makes itself
	last  *Call           // that has begun last, until it ends
}

// Begin notes that a block is a call; nil is for one that the upstream makes itself.
func (b *Blocks) Begin(index int64, call *Call) {
	if b.calls == nil {
		b.calls = make(map[int64]*Call)
	}
	if b.calls[index] = call; call != nil {
		b.last = call
	}
}

// Call is the call whose arguments come with that index, nil for one that the upstream makes itself. Where no block has
// it they are the last one's, for some gateways give another index than the block's. Arguments of no call are an error
// of kind llm.ErrProtocol.
func (b *Blocks) Call(index int64) (*Call, error) {
	if call, known := b.calls[index]; known {
		return call, nil
	}
	if b.last == nil {
		return nil, llm.Errorf(llm.ErrProtocol, "the upstream sent arguments of a call that it had not begun")
	}
	return b.last, nil
}

// End ends the block with that index.
func (b *Blocks) End(index int64) error {
	call := b.calls[index]
	delete(b.calls, index)
	if call == nil {
		return nil
	}
	if b.last == call {
		b.last = nil
	}
	return call.End()
}
