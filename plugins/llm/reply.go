package llm

import "strings"

// Item is a piece of a whole reply, in the order in which it began: text, or a tool call.
type Item struct {
	Text string
	Call *ToolCall
}

// Reply is the fold of a sequence of Events: what a reply that is not streamed is made of. The zero value
// is ready to use.
type Reply struct {
	Items  []Item
	Finish FinishReason
	Usage  *Usage
	Model  string

	text  strings.Builder // the open text item
	calls map[int]*openCall
}

type openCall struct {
	item      int
	arguments strings.Builder
}

// Add takes the next event. Text around a tool call becomes separate items.
func (r *Reply) Add(ev Event) {
	switch ev.Kind {
	case EventText:
		if n := len(r.Items); n == 0 || r.Items[n-1].Call != nil {
			r.closeText()
			r.Items = append(r.Items, Item{})
		}
		r.text.WriteString(ev.Text)
	case EventToolCall:
		r.closeText()
		if r.calls == nil {
			r.calls = make(map[int]*openCall)
		}
		r.calls[ev.Index] = &openCall{item: len(r.Items)}
		r.Items = append(r.Items, Item{Call: &ToolCall{ID: ev.ID, Name: ev.Name}})
	case EventToolArguments:
		if c := r.calls[ev.Index]; c != nil {
			c.arguments.WriteString(ev.Text)
		}
	case EventUsage:
		r.Usage = r.Usage.Merge(ev.Usage)
	case EventFinish:
		r.Finish = ev.Finish
	case EventAccepted, EventReasoning, EventToolEnd, EventReference:
	}
	if ev.Model != "" {
		r.Model = ev.Model
	}
}

// Close completes the items. Call it before reading Items; more events may follow, and another Close.
func (r *Reply) Close() {
	r.closeText()
	for _, c := range r.calls {
		r.Items[c.item].Call.Arguments = Plain(c.arguments.String())
	}
}

// closeText stores the text gathered so far in the item that is open for it.
func (r *Reply) closeText() {
	if r.text.Len() == 0 {
		return
	}
	for i := len(r.Items) - 1; i >= 0; i-- {
		if r.Items[i].Call == nil {
			r.Items[i].Text += r.text.String()
			break
		}
	}
	r.text.Reset()
}

// Text returns the visible text of all items.
func (r *Reply) Text() string {
	var b strings.Builder
	for _, it := range r.Items {
		b.WriteString(it.Text)
	}
	return b.String()
}

// Calls returns the tool calls of all items, in order.
func (r *Reply) Calls() []*ToolCall {
	var calls []*ToolCall
	for _, it := range r.Items {
		if it.Call != nil {
			calls = append(calls, it.Call)
		}
	}
	return calls
}
