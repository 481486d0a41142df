package chat

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
)

// call is a tool call that the upstream is making. It begins for the reader once its name is known; what
// came of its arguments until then waits.
type call struct {
	id     string // the upstream's, "" while it has said none
	sent   *reply.Call
	early  []byte // arguments that came before the name
	joiner reply.Joiner
}

// toolCall takes an element of `tool_calls`: of a chunk's a piece of a call, of a whole reply's a call, even where
// another one has the same id.
func (d *Decoder) toolCall(v jsonview.View) error {
	var index, idView, function jsonview.View
	for name, member := range v.Members() {
		switch name {
		case "index":
			index = member
		case "id":
			idView = member
		case "function":
			function = member
		}
	}
	id, _ := idView.Str()
	name, _ := function.Get("name").Str()
	var c *call
	if n, ok := index.Int(); d.whole {
		c = d.newCall()
	} else if ok {
		c = d.indexedCall(n, id, name)
	} else {
		c = d.unindexedCall(id, name)
	}
	if c.id == "" {
		c.id = id
	}
	return d.function(c, function)
}

// indexedCall finds the call by the index that the upstream gives it, however it counts. Some upstreams give
// every call of a reply the same index: another id with a name is another call. An id alone is not, for
// some make up a new one for every piece.
func (d *Decoder) indexedCall(index int64, id, name string) *call {
	c := d.byIndex[index]
	if c != nil && (id == "" || id == c.id || name == "" || c.id == "" || c.sent == nil) {
		d.lastCall = c
		return c
	}
	c = d.newCall()
	if d.byIndex == nil {
		d.byIndex = make(map[int64]*call)
	}
	d.byIndex[index] = c
	return c
}

// unindexedCall finds the call of a piece that says no index: by its id, and where that is missing or unknown
// a name begins a call and anything else belongs to the last one.
func (d *Decoder) unindexedCall(id, name string) *call {
	if id != "" {
		for _, c := range d.calls {
			if c.id == id {
				d.lastCall = c
				return c
			}
		}
	}
	if d.lastCall == nil || name != "" && d.lastCall.sent != nil {
		return d.newCall()
	}
	return d.lastCall
}

// legacyCall is the one call of an upstream that still sends `function_call`.
func (d *Decoder) legacyCall() *call {
	if d.lastCall == nil {
		return d.newCall()
	}
	return d.lastCall
}

func (d *Decoder) newCall() *call {
	c := &call{}
	d.calls = append(d.calls, c)
	d.lastCall = c
	return c
}

// function takes the name and a piece of the arguments of a call.
func (d *Decoder) function(c *call, v jsonview.View) error {
	if name, _ := v.Get("name").Str(); name != "" && c.sent == nil {
		sent, err := d.out.Call(c.id, name)
		if err != nil {
			return err
		}
		if c.sent = sent; len(c.early) > 0 {
			if err := sent.Arguments(string(c.early)); err != nil {
				return err
			}
		}
	}
	arguments := v.Get("arguments")
	if c.sent == nil {
		c.early = append(c.early, c.joiner.Argument(arguments)...)
		return nil
	}
	return c.sent.Arguments(c.joiner.Argument(arguments))
}
