package upstream

import "strings"

// prepare makes the steps that are really done: repetitions written out, and the request's limits applied
// where the reply honours them. An upstream made of a script knows its whole text beforehand, so it need not
// withhold anything to look for a stop sequence.
func prepare(r Reply, req *Request) []Step {
	steps := repeat(r.Steps)
	if r.Honour.Stop {
		steps = honourStop(steps, req.Stop)
	}
	if r.Honour.MaxTokens && req.MaxTokens > 0 {
		steps = honourMaxTokens(steps, req.MaxTokens)
	}
	return steps
}

// repeat writes Times and Every of text steps out.
func repeat(steps []Step) []Step {
	var out []Step
	for _, s := range steps {
		if s.Do != StepText || s.Times <= 1 {
			out = append(out, s)
			continue
		}
		for i := range s.Times {
			if i > 0 && s.Every > 0 {
				out = append(out, Step{Do: StepSleep, Every: s.Every})
			}
			out = append(out, Text(s.Text))
		}
	}
	return out
}

// honourStop ends the text before the stop sequence that is complete first, the longest of those that are
// complete at the same character.
func honourStop(steps []Step, stop []string) []Step {
	var all strings.Builder
	for _, s := range steps {
		if s.Do == StepText {
			all.WriteString(s.Text)
		}
	}
	at, end := -1, 0
	for _, seq := range stop {
		i := strings.Index(all.String(), seq)
		if seq == "" || i < 0 {
			continue
		}
		if at < 0 || i+len(seq) < end || i+len(seq) == end && i < at {
			at, end = i, i+len(seq)
		}
	}
	if at < 0 {
		return steps
	}
	left := at
	return endAt(steps, Step{Text: "stop", Stop: all.String()[at:end]}, func(s Step) (string, bool) {
		if s.Do != StepText {
			return s.Text, true
		}
		if len(s.Text) > left {
			return s.Text[:left], false
		}
		left -= len(s.Text)
		return s.Text, true
	})
}

// honourMaxTokens ends the reply after so many tokens.
func honourMaxTokens(steps []Step, limit int64) []Step {
	var m meter
	return endAt(steps, Step{Text: "length"}, func(s Step) (string, bool) {
		kept := m.take(s, limit)
		if s.Do == StepToolCall { // half a name is no name
			return "", kept == s.Name
		}
		return kept, len(kept) == len(s.Text)
	})
}

// endAt keeps the steps whole until keep says that one is not; of that one it keeps the text returned, of
// the pieces of the reply after it nothing, and the reply finishes as finish says.
func endAt(steps []Step, finish Step, keep func(Step) (string, bool)) []Step {
	var out []Step
	ended := false
	for _, s := range steps {
		switch s.Do {
		case StepText, StepReasoning, StepToolCall, StepArguments:
			if ended {
				continue
			}
			text, whole := keep(s)
			s.Text, ended = text, !whole
			if ended && text == "" {
				continue
			}
		case StepFinish:
			if ended {
				s.Text, s.Stop = finish.Text, finish.Stop
			}
		}
		out = append(out, s)
	}
	return out
}

// markCallEnds adds a stepCallEnd after the last piece of each call. An upstream made of a script knows its whole
// reply beforehand; a real one knows the end of a call because its model says so.
func markCallEnds(steps []Step) []Step {
	last := map[int]int{}
	for i, s := range steps {
		if s.Do == StepToolCall || s.Do == StepArguments {
			last[s.Index] = i
		}
	}
	var out []Step
	for i, s := range steps {
		out = append(out, s)
		if (s.Do == StepToolCall || s.Do == StepArguments) && last[s.Index] == i {
			out = append(out, Step{Do: stepCallEnd, Index: s.Index})
		}
	}
	return out
}
