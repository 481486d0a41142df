package verify

import (
	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// opsEndingChecks are about how replies end, and what they say of tokens and money.
func opsEndingChecks() []opsCheck {
	return []opsCheck{
		onEach("CHAT-30 RESP-28 MSG-20", "a reply that ends by itself", standardGate, requireNaturalEnd),
		onEach("CHAT-31 RESP-30 MSG-21", "a reply that its allowance ends", standardGate, requireAllowanceEnd),
		onEach("CHAT-29 RESP-28 MSG-19", "a reply that the route ends at a stop sequence", standardGate, requireRouteEnd),
		onEach("POL-03 POL-04 POL-05 CHAT-32 RESP-29 MSG-22 SSE-13", "the content policy ends a reply (E23)", standardGate,
			requirePolicyEnd),
		onEach("POL-06", "the content policy leaves no text", standardGate, requirePolicyText),
		onEach("POL-06", "the content policy leaves a fragment or a call", standardGate, requirePolicyRest),
		onEach("USE-01 USE-02", "the usage of a reply (USE-04)", standardGate, requireUsage),
		onEach("USE-01", "the usage of a reply to a cached prompt", standardGate, requireCachedUsage),
	}
}

// five is the usage of replies whose end is looked at.
var five = upstream.Usage{Prompt: 5, Completion: 5}

// ends checks the text and the end of a reply to these members, and what it costs.
func (o *ops) ends(s shape, finish, text, want string, members ...string) {
	o.answers(script(five, finish, upstream.Text(text)))
	v := o.both(s, members...)
	o.Equal(text, v.Text, "the text")
	o.Equal(s.Ended(want), v.Finish, "the end of the reply")
	o.Equal(nil, v.StopSequence, "stop_sequence")
	o.Equal(int64(5*inputPrice+5*outputPrice), v.Billed(o), "billed_microcents")
}

func requireNaturalEnd(o *ops, s shape) { o.ends(s, "stop", "Hello.", "natural") }

func requireAllowanceEnd(o *ops, s shape) { o.ends(s, "length", "Hel", "length", allow(s, 5)) }

func requireRouteEnd(o *ops, s shape) { o.ends(s, "stop", "a ", "natural", stopMember(s, "END")) }

// requirePolicyEnd: nothing is added to the text (GAP-94), and it is charged like any (GAP-97).
func requirePolicyEnd(o *ops, s shape) {
	before := o.balance()
	o.ends(s, "content_filter", "Some text.", "policy")
	o.Equal(int64(2*(5*inputPrice+5*outputPrice)), before.net()-o.balance().net(), "what NET fell by")
}

// blockedText is what a reply says of which the policy leaves nothing.
const blockedText = "This request was blocked by the content policy. If you think this is a mistake, contact support " +
	"with the request id."

// requirePolicyText: the service's own text is never matched (GAP-75).
func requirePolicyText(o *ops, s shape) {
	o.answers(script(five, "content_filter"))
	v := o.both(s, stopMember(s, "blocked"))
	o.Equal(blockedText, v.Text, "the text")
	o.True(len(v.Pieces) > 0, "it is no delta of the stream")
	o.Equal(s.Ended("policy"), v.Finish, "the end of the reply")
}

func requirePolicyRest(o *ops, s shape) {
	o.answers(script(five, "content_filter", upstream.Text("EN")))
	v := o.both(s, stopMember(s, "END"))
	o.Equal("EN", v.Text, "the text that was withheld")
	o.Equal(s.Ended("policy"), v.Finish, "the end of the reply")
	o.answers(script(five, "content_filter", callSteps(0, callG)...))
	v = o.both(s, twoFunctions(s))
	o.Equal([]wire.ToolCall{callG}, v.Calls, "the calls")
	o.Equal(s.Ended("policy"), v.Finish, "the end of the reply")
}

// requireUsageOf checks members of the usage of a reply, streamed and not; cached input has no price of its own.
func (o *ops) requireUsageOf(s shape, reply upstream.Reply, want map[string]string) {
	o.answers(reply)
	before := o.balance()
	v := o.both(s)
	usage, err := wire.Decode([]byte(`{` + want[s.Name] + `,"billed_microcents":13500,"billing_pending":false}`))
	o.True(err == nil, "the suite's usage is no JSON: %v", err)
	for name, value := range usage {
		o.Equal(value, v.Usage[name], "usage."+name)
	}
	o.Equal(int64(2*13_500), before.net()-o.balance().net(), "what NET fell by")
}

func requireUsage(o *ops, s shape) {
	thought := int64(3)
	o.requireUsageOf(s, script(upstream.Usage{Prompt: 10, Completion: 7, Reasoning: &thought}, "stop",
		upstream.Reasoning("hm"), upstream.Text("x")), map[string]string{
		"chat": `"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,` +
			`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":3}`,
		"responses": `"input_tokens":10,"output_tokens":7,"total_tokens":17,"input_tokens_details":{"cached_tokens":0,` +
			`"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":3}`,
		"messages": `"input_tokens":10,"output_tokens":7`,
	})
}

func requireCachedUsage(o *ops, s shape) {
	cached := int64(4)
	o.requireUsageOf(s, script(upstream.Usage{Prompt: 10, Completion: 7, Cached: &cached}, "stop", upstream.Text("x")),
		map[string]string{
			"chat": `"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,` +
				`"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}`,
			"responses": `"input_tokens":10,"output_tokens":7,"total_tokens":17,"input_tokens_details":{"cached_tokens":4,` +
				`"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0}`,
			"messages": `"input_tokens":6,"output_tokens":7,"cache_read_input_tokens":4`,
		})
}
