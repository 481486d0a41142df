package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Script is what a Server answers, as data: for the command and for the admin paths.
//
//	{"queue": [{"steps": [{"do": "error", "error": {"status": 503}}]}],
//	 "models": {"slow": {"steps": [{"do": "headers"}, {"do": "wait", "gate": "go"}, {"do": "text", "text": "hi"},
//	                               {"do": "finish", "text": "stop"}, {"do": "usage"}, {"do": "done"}]}},
//	 "default": {"steps": [{"do": "text", "text": "word ", "times": 100, "every": "10ms"},
//	                       {"do": "finish", "text": "stop"}, {"do": "usage"}, {"do": "done"}]}}
type Script struct {
	// Queue holds replies that are given once each, before all others.
	Queue []Reply `json:"queue,omitempty"`
	// Models holds the replies to requests for a model.
	Models map[string]Reply `json:"models,omitempty"`
	// Default is the reply to all other requests. nil: Options.Script.
	Default *Reply `json:"default,omitempty"`
}

// ParseScript reads a Script and checks that its steps can be done. Errors name the step.
func ParseScript(b []byte) (Script, error) {
	var script Script
	if err := strict(b, &script); err != nil {
		return Script{}, fmt.Errorf("reading a script of the fake upstream: %w", err)
	}
	for i, r := range script.Queue {
		if err := r.check(); err != nil {
			return Script{}, fmt.Errorf("checking queue[%d]: %w", i, err)
		}
	}
	for name, r := range script.Models {
		if err := r.check(); err != nil {
			return Script{}, fmt.Errorf("checking models[%q]: %w", name, err)
		}
	}
	if script.Default != nil {
		if err := script.Default.check(); err != nil {
			return Script{}, fmt.Errorf("checking default: %w", err)
		}
	}
	return script, nil
}

// strict reads one JSON value and refuses names that v does not have.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is data after the JSON value")
	}
	return nil
}

// check finds what a script in Go cannot get wrong but one in JSON can.
func (r Reply) check() error {
	switch r.Usage {
	case UsageAsAsked, UsageAlways, UsageEveryChunk, UsageWithFinish, UsageNever:
	default:
		return fmt.Errorf("usage %q is not one of \"\", always, every_chunk, with_finish, never", r.Usage)
	}
	switch r.Wire.LineEnd {
	case "", "lf", "crlf", "cr":
	default:
		return fmt.Errorf("line_end %q is not one of lf, crlf, cr", r.Wire.LineEnd)
	}
	if b := r.Wire.Break; b != nil {
		switch b.How {
		case EndAbort, EndReset, EndClean:
		default:
			return fmt.Errorf("how %q is not one of \"\", reset, clean", b.How)
		}
	}
	for i, s := range r.Steps {
		if s.Usage != nil && s.Usage.Raw != "" && !json.Valid([]byte(s.Usage.Raw)) {
			return fmt.Errorf("steps[%d]: raw is not JSON: %s", i, s.Usage.Raw)
		}
		switch s.Do {
		case StepText, StepReasoning, StepToolCall, StepArguments, StepFinish, StepUsage, StepDone, StepComment,
			StepRaw, StepHeaders, StepSleep, StepSilence, StepCut, StepReset:
		case StepWait:
			if s.Gate == "" {
				return fmt.Errorf("steps[%d]: a wait needs the name of a gate", i)
			}
		case StepError:
			if s.Error == nil || s.Error.Status < 200 || s.Error.Status > 599 {
				return fmt.Errorf("steps[%d]: an error needs a status from 200 to 599", i)
			}
		default:
			return fmt.Errorf("steps[%d]: there is no step %q", i, s.Do)
		}
	}
	return nil
}

// SetScript replaces the queue, the replies of models and the default reply; without one, Options.Script
// answers again.
func (s *Server) SetScript(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append([]Reply(nil), script.Queue...)
	s.models = map[string]Reply{}
	for name, r := range script.Models {
		s.models[name] = r
	}
	s.fallback = script.Default
}
