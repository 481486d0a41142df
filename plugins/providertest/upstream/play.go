package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// renderer puts steps into the shape of one family, streamed or not.
type renderer interface {
	contentType() string
	// append appends what a step adds to the body; used is what the reply has used by then.
	append(b []byte, s Step, used Usage) []byte
	// fail appends an error to a body whose header is out.
	fail(b []byte, e *Error) []byte
	// reported is the last usage that was appended.
	reported() *Usage
}

// player runs the script of one reply.
type player struct {
	server *Server
	req    *Request
	reply  Reply
	family *family
	render renderer
	out    *wire
	header http.Header
	rec    *Record

	meter  meter
	prompt int64
	buf    []byte
}

// play runs the steps. The error says how the reply ended when it is not whole: errLeft, errUnmarked, a
// brokenError, or the *Error that was sent.
func (p *player) play(ctx context.Context) error {
	steps := markCallEnds(prepare(p.reply, p.req))
	scripted := scriptedUsage(steps)
	done := false
	for _, s := range steps {
		if err := p.step(ctx, s, scripted); err != nil {
			return err
		}
		done = done || s.Do == StepDone
	}
	p.begin()
	if err := p.out.flush(); err != nil {
		return err
	}
	if !done {
		return errUnmarked
	}
	return nil
}

// scriptedUsage is the usage that the script names, nil when it is to be counted.
func scriptedUsage(steps []Step) *Usage {
	for _, s := range steps {
		if s.Do == StepUsage && s.Usage != nil {
			return s.Usage
		}
	}
	return nil
}

func (p *player) step(ctx context.Context, s Step, scripted *Usage) error {
	switch s.Do {
	case StepHeaders:
		p.begin()
		return p.out.flush()
	case StepWait, StepSleep, StepSilence:
		return p.pause(ctx, s)
	case StepError:
		return p.fail(s.Error)
	case StepCut, StepReset:
		p.begin()
		if err := p.out.flush(); err != nil {
			return err
		}
		if s.Do == StepReset {
			return brokenError{EndReset}
		}
		return brokenError{EndAbort}
	case StepRaw:
		p.begin()
		return p.out.raw([]byte(s.Text))
	}
	p.meter.take(s, -1)
	used := p.meter.usage(p.prompt)
	p.rec.Used = used
	p.buf = p.render.append(p.buf[:0], s, told(s, used, scripted))
	if len(p.buf) == 0 {
		return nil
	}
	p.begin()
	if err := p.out.lines(p.buf); err != nil {
		return err
	}
	p.rec.Reported = p.render.reported()
	return nil
}

// told is the usage that a chunk may show: what was counted, or as much of a scripted usage.
func told(s Step, used Usage, scripted *Usage) Usage {
	switch {
	case s.Do == StepUsage && s.Usage != nil:
		return *s.Usage
	case scripted == nil:
		return used
	case s.Do == StepFinish || s.Do == StepUsage || s.Do == StepDone:
		return *scripted
	}
	part := *scripted
	part.Completion = min(part.Completion, used.Completion)
	part.Reasoning = used.Reasoning
	return part
}

// begin sends the status and the header, once; they leave with the next flush.
func (p *player) begin() {
	if p.rec.Status != 0 {
		return
	}
	p.rec.Status = http.StatusOK
	p.header.Set("Content-Type", p.render.contentType())
	for name, value := range p.reply.Header {
		p.header.Set(name, value)
	}
	p.out.w.WriteHeader(http.StatusOK)
}

// pause waits; what was written before is on its way then.
func (p *player) pause(ctx context.Context, s Step) error {
	if p.rec.Status != 0 {
		if err := p.out.flush(); err != nil {
			return err
		}
	}
	var passed <-chan struct{} // never, for silence
	switch {
	case s.Do == StepSleep:
		timer := time.NewTimer(time.Duration(s.Every))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return errLeft
		}
	case s.open != nil:
		passed = s.open
	case s.Do == StepWait:
		var g *gate
		p.server.state.change(func() {
			g = p.server.state.gate(s.Gate)
			g.waiting++
		})
		defer p.server.state.change(func() { g.waiting-- })
		passed = g.open
	}
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return errLeft
	}
}

// fail sends an error, as a status where that is still possible.
func (p *player) fail(e *Error) error {
	if e == nil {
		internal := ServerError()
		e = &internal
	}
	if p.rec.Status == 0 {
		for name, value := range p.reply.Header {
			p.header.Set(name, value)
		}
		p.rec.Status = e.Status
		p.out.sent += p.family.refuse(p.out.w, e, p.server.service)
		return e
	}
	if err := p.out.lines(p.render.fail(nil, e)); err != nil {
		return err
	}
	if err := p.out.flush(); err != nil {
		return err
	}
	return e
}

// outcome says how a reply ended that play returned err for.
func outcome(err error) Outcome {
	var failed *Error
	switch {
	case err == nil:
		return OutcomeWhole
	case errors.As(err, &failed):
		return OutcomeFailed
	case errors.Is(err, errLeft):
		return OutcomeLeft
	}
	return OutcomeCut
}
