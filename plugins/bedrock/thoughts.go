package bedrock

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// thoughts are what was thought before a call, as it comes. Only what is signed, or encrypted, goes back: models
// without signatures refuse what they have thought themselves.
type thoughts struct {
	reply.Thoughts
	open                       bool  // a block is being streamed
	index                      int32 // of it
	text, signature, encrypted []byte
}

// thought is a block as a call's state has it.
type thought struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
	Encrypted []byte `json:"encrypted,omitempty"`
}

// piece takes a piece of the block with this index.
func (t *thoughts) piece(index int32, delta types.ReasoningContentBlockDelta) {
	if t.Lost() {
		return
	}
	if !t.open || t.index != index {
		*t = thoughts{Thoughts: t.Thoughts, open: true, index: index}
	}
	switch delta := delta.(type) {
	case *types.ReasoningContentBlockDeltaMemberText:
		t.text = append(t.text, delta.Value...)
	case *types.ReasoningContentBlockDeltaMemberSignature:
		t.signature = append(t.signature, delta.Value...)
	case *types.ReasoningContentBlockDeltaMemberRedactedContent:
		t.encrypted = append(t.encrypted, delta.Value...)
	}
	if len(t.text)+len(t.signature)+len(t.encrypted) > llm.MaxState {
		t.Lose()
	}
}

// end ends the block with this index.
func (t *thoughts) end(index int32) {
	if !t.open || t.index != index {
		return
	}
	t.open = false
	if len(t.signature)+len(t.encrypted) == 0 {
		t.Lose() // the upstream takes all of it or nothing
		return
	}
	// Texts and bytes can always be written.
	b, _ := json.Marshal(thought{Text: string(t.text), Signature: string(t.signature), Encrypted: t.encrypted})
	t.Add(b)
}

// reasoning are the blocks of a call's state as the library takes them; what is none is left out.
func reasoning(blocks [][]byte) (content []types.ContentBlock) {
	for _, raw := range blocks {
		var block thought
		if json.Unmarshal(raw, &block) != nil {
			continue
		}
		var value types.ReasoningContentBlock
		switch {
		case block.Signature != "":
			value = &types.ReasoningContentBlockMemberReasoningText{
				Value: types.ReasoningTextBlock{Text: &block.Text, Signature: &block.Signature}}
		case len(block.Encrypted) > 0:
			value = &types.ReasoningContentBlockMemberRedactedContent{Value: block.Encrypted}
		default:
			continue
		}
		content = append(content, &types.ContentBlockMemberReasoningContent{Value: value})
	}
	return content
}
