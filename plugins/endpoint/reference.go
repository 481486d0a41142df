package endpoint

import (
	"bytes"
	"encoding/json"

	"github.com/fareway/fareway/plugins/llm"
)

// sendReference sends what the upstream is asked by for a receipt, once, as soon as it is known (see
// Endpoint.References).
func (c *Call) sendReference(id string) {
	if c.refers && c.endpoint.name(id) != "" {
		c.refers = false
		c.add(llm.Event{Kind: llm.EventReference, ID: id})
	}
}

// referCut does it for a reply in one piece of which no more than the beginning came: it is not decoded.
func (c *Call) referCut(begin []byte) {
	if c.refers {
		c.sendReference(idOf(begin, c.codec.id))
	}
}

// idOf is the text of a member of the object that a reply begins with, also of the first one of a stream; "" where it
// is not in what came.
func idOf(begin []byte, member string) string {
	if begin = bytes.TrimPrefix(begin, byteOrderMark); isStream(begin) {
		_, begin, _ = bytes.Cut(begin, []byte("data:"))
	}
	d := json.NewDecoder(bytes.NewReader(begin))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	for {
		name, err := d.Token()
		if err != nil {
			return ""
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return ""
		}
		var id string
		if name == member && json.Unmarshal(value, &id) == nil {
			return id
		}
	}
}
