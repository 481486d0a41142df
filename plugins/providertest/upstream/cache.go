package upstream

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
)

// unit is a piece of a prompt that a cache keeps whole: a tool, a system block, a message, or a block of one.
type unit struct {
	text   string // as it came, without the mark
	marked bool   // a prefix may end here
	goesOn bool   // it is more of the piece that the unit before it is of
}

// step is of how many tokens, here words, a service that keeps prefixes by itself keeps one ("Prompt caching" of
// OpenAI's documentation: in increments of 128 tokens).
const step = 128

// steps takes a piece of a prompt apart where a prefix may end within it.
func steps(piece string) (units []unit) {
	for first := true; first || piece != ""; first = false {
		var words counter
		begun := words.take(piece, step)
		units = append(units, unit{begun, true, !first})
		piece = piece[len(begun):]
	}
	return units
}

// lookback is how many units before a mark a service of the messages family looks for what it has kept.
const lookback = 20

// promptCache is what the service keeps of prompts: each prefix that ended at a mark, by the key, the model and all
// its units. In the families messages and bedrock marks are what the request sets; the others keep every prefix by
// themselves, in steps. The services' smallest prefix, of a thousand tokens or so, and the end of their time are left
// out.
type promptCache map[string]bool

// use finds out how much of a prompt is in the cache, in tokens, and how much is put there.
func (c promptCache) use(req *Request) (read, written int64) {
	units := unitsOf(req)
	keys := make([]string, len(units))
	sums := make([]int64, len(units))
	key := sha256.New()
	var sum counter
	key.Write([]byte(req.credential + "\x00" + req.Model)) // each customer has a cache of its own
	for i, u := range units {
		if !u.goesOn {
			key.Write([]byte{0})
			sum.gap()
		}
		key.Write([]byte(u.text))
		sum.add(u.text)
		keys[i], sums[i] = string(key.Sum(nil)), sum.n
	}
	last := -1
	for i, u := range units {
		if !u.marked {
			continue
		}
		last = i
		for back := i; back >= max(0, i-lookback); back-- {
			if c[keys[back]] {
				read = max(read, sums[back])
				break
			}
		}
	}
	for i, u := range units {
		if u.marked {
			c[keys[i]] = true
		}
	}
	if last >= 0 {
		written = sums[last] - read
	}
	return read, written
}

// unitsOf takes a prompt apart. What the words of a request come to is left to the counter: the prompt has no more of
// them than are in its units, for those have JSON around them.
func unitsOf(req *Request) []unit {
	if req.Family == "bedrock" {
		return bedrockUnits(req.Body)
	}
	var body struct {
		Tools    []json.RawMessage `json:"tools"`
		System   []json.RawMessage `json:"system"`
		Prompt   json.RawMessage   `json:"instructions"`
		Messages []json.RawMessage `json:"messages"`
		Input    []json.RawMessage `json:"input"`
		// Of Google's.
		Instruction json.RawMessage   `json:"systemInstruction"`
		Contents    []json.RawMessage `json:"contents"`
	}
	if json.Unmarshal(req.Body, &body) != nil {
		return nil
	}
	var units []unit
	if req.Family != "messages" {
		for _, piece := range slices.Concat(body.Tools, []json.RawMessage{body.Prompt, body.Instruction},
			body.Messages, body.Input, body.Contents) {
			units = append(units, steps(string(piece))...)
		}
		return units
	}
	for _, piece := range slices.Concat(body.Tools, body.System) {
		units = append(units, blockUnit(piece, ""))
	}
	for _, m := range body.Messages {
		var message struct {
			Role    string            `json:"role"`
			Content []json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m, &message) != nil {
			units = append(units, unit{text: string(m)}) // its content is a text
			continue
		}
		for _, block := range message.Content {
			units = append(units, blockUnit(block, message.Role))
		}
	}
	return units
}

// marks are a mark as the service takes it, and as our provider writes it.
var marks = []string{`,"cache_control":{"type":"ephemeral"}`, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`,
	`,"cache_control":{"type":"ephemeral","ttl":"5m"}`}

func blockUnit(block json.RawMessage, role string) unit {
	text := string(block)
	for _, mark := range marks {
		if bare, ok := strings.CutSuffix(text, mark+"}"); ok {
			return unit{text: role + bare + "}", marked: true}
		}
	}
	return unit{text: role + text}
}
