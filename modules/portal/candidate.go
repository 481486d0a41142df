package portal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/change"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

// candidatePath is where another text of the configuration is looked at, and written.
const candidatePath = "/portal/operator/configuration/edit"

const (
	// maxCandidate bounds what is sent of a configuration, in bytes: a text of a megabyte, as a form has it.
	maxCandidate = 3 << 20
	// maxLook is how long a look at one may take: requests of the past are routed again for it.
	maxLook = time.Minute
	// lookedBack is from how long ago those are.
	lookedBack = 7 * 24 * time.Hour
)

func showCandidate(v *visit) error {
	view, saved, err := v.candidate(v.r.URL.Query().Get("file"))
	if err != nil {
		return err
	}
	view.Text, view.Was = saved.Text, saved.SHA256
	return v.showCandidate(view)
}

// candidate is the page about one of the files, as it is saved; "" is the one that names the others.
func (v *visit) candidate(path string) (view views.Candidate, saved admin.SavedFile, err error) {
	var all admin.SavedConfiguration
	if err := v.get("/fareway/configuration", &all); err != nil {
		return view, saved, err
	}
	if len(all.Files) == 0 {
		return view, saved, errNotFound
	}
	at := 0
	if path != "" {
		at = slices.IndexFunc(all.Files, func(f admin.SavedFile) bool { return f.Path == path })
	}
	if at < 0 {
		return view, saved, errNotFound
	}
	saved = all.Files[at]
	view = views.Candidate{File: saved.Path, Editable: all.Editable, Shared: all.Shared, Unserved: !saved.Serves}
	for _, f := range all.Files {
		view.Files = append(view.Files, f.Path)
	}
	return view, saved, nil
}

func (v *visit) showCandidate(view views.Candidate) error {
	return v.show(views.CandidatePage(v.page("Edit the configuration"), view))
}

// tryCandidate shows what a text would change, and writes it where that has been seen.
func tryCandidate(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	act := form.Get("act")
	if act != "plan" && act != "write" {
		return errBadForm
	}
	view, saved, err := v.candidate(form.Get("file"))
	if err != nil {
		return err
	}
	view.Text = lineEndsAs(saved.Text, form.Get("text"))
	view.Was, view.Replays = saved.SHA256, form.Get("replay") != ""
	switch {
	case form.Get("was") != saved.SHA256:
		// What was seen until now is no more what it would replace.
		v.status = http.StatusConflict
		v.fault = v.language.Text("Somebody has saved this file meanwhile: nothing was written. Below is what your text " +
			"would change in theirs. Take over what you want to keep of it before you write.")
		view.Theirs = v.theirs(form.Get("was"), saved)
	case act == "write" && form.Get("seen") != config.DigestOf(view.Text):
		v.fault = v.language.Text("The text is another one than the one whose changes you have seen: here they are.")
	case act == "write":
		return v.writeCandidate(view, saved)
	}
	return v.lookAt(view, saved)
}

// theirs is what somebody else has changed of a text, where that is known by its digest.
func (v *visit) theirs(was string, saved admin.SavedFile) *admin.FileDifference {
	var kept []admin.Configuration
	if err := v.get("/fareway/configurations", &kept); err != nil {
		return nil
	}
	for _, k := range kept {
		var one admin.Configuration
		if err := v.get("/fareway/configurations/"+strconv.FormatInt(k.Number, 10), &one); err != nil {
			continue
		}
		for _, f := range one.Files {
			if f.Path == saved.Path && f.Text != nil && config.DigestOf(*f.Text) == was {
				return differenceOf(saved.Path, *f.Text, saved.Text)
			}
		}
	}
	return nil
}

// lookAt shows what the text would change.
func (v *visit) lookAt(view views.Candidate, saved admin.SavedFile) error {
	switch err := v.fillCandidate(&view, saved); {
	case errors.Is(err, context.DeadlineExceeded):
		v.fault = v.language.Text("It takes longer than a minute: ask `fareway gateway plan` on the gateway's machine.")
		v.status = http.StatusGatewayTimeout
	case admin.StatusOf(err) == http.StatusTooManyRequests:
		v.status, v.fault = http.StatusTooManyRequests, v.language.Text(othersWork)
	case err != nil:
		return err
	}
	return v.showCandidate(view)
}

// othersWork is said where another page has asked for something that takes long.
const othersWork = "Somebody else is having something large looked at just now. Try again in a moment."

// fillCandidate fills in what the text would change.
func (v *visit) fillCandidate(view *views.Candidate, saved admin.SavedFile) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), maxLook)
	defer cancel()
	api := v.api(v.engine, v.actor())
	plan := new(admin.Plan)
	err := api.Call(ctx, http.MethodPost, "/fareway/plan", admin.PlanRequest{Text: &view.Text, File: view.File}, plan)
	if err != nil {
		return err
	}
	view.Looked = &views.CandidatePlan{OK: plan.OK, Text: plan.Text, Refused: plan.Refused, Untried: plan.Untried,
		Difference: differenceOf(view.File, saved.Text, view.Text)}
	view.Looked.Changes = v.changesOf(plan.Changes)
	for _, p := range plan.Profiles {
		view.Looked.Profiles = append(view.Looked.Profiles, views.ProfileChange{Name: p.Profile,
			Before: profilePoint(p.Before), After: profilePoint(p.After)})
	}
	if !plan.OK {
		if v.status == 0 {
			v.status = http.StatusUnprocessableEntity
		}
		return nil
	}
	view.Seen = config.DigestOf(view.Text)
	if view.Replays {
		view.Looked.Replay, err = v.replay(ctx, view)
	}
	return err
}

// replay is what the text would have made of the requests of last week.
func (v *visit) replay(ctx context.Context, view *views.Candidate) (*views.Replay, error) {
	since := v.engine.Now().Add(-lookedBack)
	var c *decisions.Comparison
	err := v.api(v.engine, v.actor()).PostLines(ctx, "/fareway/replay", admin.ReplayRequest{Text: view.Text,
		File: view.File, Since: since}, func(line []byte) error {
		var one admin.Replay
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		if one.Comparison != nil {
			c = one.Comparison
		}
		return nil
	})
	if err != nil || c == nil {
		return nil, err
	}
	return viewReplay(c, since), nil
}

func viewReplay(c *decisions.Comparison, since time.Time) *views.Replay {
	side := func(s *decisions.Side) (v views.ReplaySide) {
		v = views.ReplaySide{Charged: s.Charged, Cost: s.Cost, Margin: s.Margin, Quality: s.Quality}
		for _, r := range s.Refused {
			v.Refused += r.Requests
		}
		return v
	}
	r := &views.Replay{Since: since, Requests: c.Requests, Unread: c.Unread, Unpaid: c.Unpaid, Charged: c.Charged,
		Cost: c.Cost, Before: side(&c.Before), After: side(&c.After), MoreUnread: c.After.Unread - c.Unread}
	of := func(s *decisions.Side, route string) int64 {
		at := slices.IndexFunc(s.Routes, func(r decisions.RouteShare) bool { return r.Route == route })
		if at < 0 {
			return 0
		}
		return s.Routes[at].Requests
	}
	for _, s := range []*decisions.Side{&c.After, &c.Before} {
		for _, one := range s.Routes {
			if s == &c.After || of(&c.After, one.Route) == 0 {
				r.Routes = append(r.Routes, views.ReplayRoute{Name: one.Route, Before: of(&c.Before, one.Route),
					After: of(&c.After, one.Route)})
			}
		}
	}
	for _, s := range c.Shifts {
		r.Shifts = append(r.Shifts, views.ReplayShift{From: s.From, To: s.To, Requests: s.Requests})
	}
	for _, why := range c.After.Refused {
		r.Refused = append(r.Refused, views.ReplayRefusal{Why: why.Reason, Requests: why.Requests})
	}
	for _, u := range c.After.Unjudged {
		r.Unjudged = append(r.Unjudged, views.ReplayRefusal{Name: u.Strategy, Why: u.Why, Requests: u.Requests})
	}
	return r
}

// changesOf are the changes of blocks, in words.
func (v *visit) changesOf(list []change.Block) (out []views.BlockChange) {
	signs := map[change.Kind]string{change.Added: "+", change.Removed: "-", change.Altered: "~"}
	processes := map[change.Process]string{change.Starts: "Its process starts.",
		change.Restarts: "Its process restarts: the old one ends with its last request.",
		change.Stops:    "Its process ends with its last request."}
	for _, b := range list {
		one := views.BlockChange{Sign: signs[b.Kind], Name: strings.TrimSpace(b.Type + " " + b.Name)}
		if text, ok := processes[b.Process]; ok {
			one.Notes = append(one.Notes, v.language.Text(text))
		}
		if b.Accounts != nil {
			one.Notes = append(one.Notes, v.language.Count(*b.Accounts, "One account is on it.", "%s accounts are on it."))
		}
		for _, f := range b.Fields {
			if b.FollowsPrice(f) {
				continue
			}
			one.Fields = append(one.Fields, views.FieldChange{Name: f.Name, Before: change.ShowValue(f.Name, f.Before),
				After: change.ShowValue(f.Name, f.After)})
		}
		out = append(out, one)
	}
	return out
}

// writeCandidate writes the text into its file, and loads it.
func (v *visit) writeCandidate(view views.Candidate, saved admin.SavedFile) error {
	view.Seen = config.DigestOf(view.Text)
	if err := v.service.CheckVerified(v.session); errors.Is(err, people.ErrConfirm) {
		// Not by another page in the place of this one: the text would be gone.
		view.Confirm, v.status = true, http.StatusForbidden
		return v.lookAt(view, saved)
	} else if err != nil {
		return err
	}
	var done admin.Edited
	err := v.api(v.engine, v.actor()).Call(v.r.Context(), http.MethodPost, "/fareway/configuration", admin.EditRequest{
		File: view.File, Text: view.Text, Was: view.Was}, &done)
	if status := admin.StatusOf(err); status != 0 {
		v.status, view.Failed = status, err.Error()
		return v.showCandidate(view)
	}
	if err != nil {
		return err
	}
	notice := "written"
	if !done.Changed {
		notice = "unchanged"
	}
	if done.Kept != "" {
		v.notice = v.language.Text("It is written, and serves. What was saved and did not serve is kept in %s.", done.Kept)
		return showConfiguration(v)
	}
	v.redirect(views.Link("/portal/operator/configuration", url.Values{"done": {notice}}))
	return nil
}

// differenceOf is nil where two texts are the same.
func differenceOf(path, before, after string) *admin.FileDifference {
	of := func(text string) admin.Configuration {
		return admin.Configuration{Files: []admin.KeptFile{{Path: path, Text: &text}}}
	}
	d := admin.DiffOf(of(before), of(after))
	if len(d.Files) == 0 {
		return nil
	}
	return &d.Files[0]
}

// lineEndsAs gives a text, whose lines a form ends with CR and LF, the line ends of the one that it replaces: CR and LF
// only where each of its lines has both.
func lineEndsAs(saved, text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if n := strings.Count(saved, "\r\n"); n > 0 && n == strings.Count(saved, "\n") {
		return strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}
