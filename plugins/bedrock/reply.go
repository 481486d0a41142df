package bedrock

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// decoder turns the events of a stream into those of a reply.
type decoder struct {
	out     *reply.Stream
	blocks  reply.Blocks
	thought thoughts
	stopped bool // it was said why the reply ends
}

func newDecoder(send func(llm.Event) error) *decoder {
	return &decoder{out: reply.New(reply.Counting{Input: "inputTokens", Output: "outputTokens", CacheBeside: true}, send)}
}

// event takes one event. Errors are *llm.Error, or what send returned.
func (d *decoder) event(event types.ConverseStreamOutput) error {
	if err := d.out.Err(); err != nil {
		return err
	}
	return d.out.Fail(d.takeEvent(event))
}

// end ends the reply, whose stream has ended.
func (d *decoder) end() error {
	if !d.stopped {
		return d.out.Broken()
	}
	return d.out.End()
}

func (d *decoder) takeEvent(event types.ConverseStreamOutput) error {
	switch e := event.(type) {
	case *types.ConverseStreamOutputMemberContentBlockStart:
		var call *reply.Call
		var err error
		index := int64(aws.ToInt32(e.Value.ContentBlockIndex))
		if use, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
			id, name := aws.ToString(use.Value.ToolUseId), aws.ToString(use.Value.Name)
			if d.blocks.Again(index, id, name) {
				return nil
			}
			call, err = d.out.CallWith(id, name, d.thought.State())
		}
		d.blocks.Begin(index, call)
		return err
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		return d.delta(aws.ToInt32(e.Value.ContentBlockIndex), e.Value.Delta)
	case *types.ConverseStreamOutputMemberContentBlockStop:
		index := aws.ToInt32(e.Value.ContentBlockIndex)
		d.thought.end(index)
		return d.blocks.End(int64(index))
	case *types.ConverseStreamOutputMemberMessageStop:
		d.stopped = true
		d.out.Finished(reply.Finish(string(e.Value.StopReason)))
	case *types.ConverseStreamOutputMemberMetadata:
		d.out.Used(usage(e.Value.Usage))
	}
	return nil
}

func (d *decoder) delta(index int32, delta types.ContentBlockDelta) error {
	switch delta := delta.(type) {
	case *types.ContentBlockDeltaMemberText:
		d.thought.Text(delta.Value)
		return d.out.Said(delta.Value)
	case *types.ContentBlockDeltaMemberReasoningContent:
		d.thought.piece(index, delta.Value)
		if thought, ok := delta.Value.(*types.ReasoningContentBlockDeltaMemberText); ok {
			return d.out.Thought(thought.Value)
		}
	case *types.ContentBlockDeltaMemberToolUse:
		call, err := d.blocks.Call(int64(index))
		if call != nil {
			return call.Arguments(aws.ToString(delta.Value.Input))
		}
		return err
	}
	return nil
}

// usage is the usage as it came, which the library has read: its counts are disjoint, what was read from the cache or
// written to it is not in inputTokens.
func usage(u *types.TokenUsage) jsonview.View {
	if u == nil {
		return jsonview.View{}
	}
	said := map[string]*int32{"inputTokens": u.InputTokens, "outputTokens": u.OutputTokens, "totalTokens": u.TotalTokens,
		"cacheReadInputTokens": u.CacheReadInputTokens, "cacheWriteInputTokens": u.CacheWriteInputTokens}
	raw, _ := json.Marshal(said) // numbers can always be written
	v, _ := jsonview.Parse(raw, 1)
	return v
}
