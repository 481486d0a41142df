package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
)

// SavedFile is one of the configuration's files, as it is saved.
type SavedFile struct {
	Path   string `json:"path"`
	Text   string `json:"text"`
	SHA256 string `json:"sha256"`
	Serves bool   `json:"serves"` // that text is the one that is in force
}

// SavedConfiguration are the files of the configuration in force, first the one that names the others. What
// file("...") brings is not among them.
type SavedConfiguration struct {
	Files []SavedFile `json:"files"`
	// Editable: POST /fareway/configuration writes them.
	Editable bool `json:"editable"`
	// Shared: other nodes have files of their own, which nobody writes here.
	Shared bool `json:"shared"`
}

// EditRequest is one of the configuration's files, with another text.
type EditRequest struct {
	File string `json:"file,omitempty"` // its path; "": the one that names the others
	Text string `json:"text"`
	// Was is the digest of the text that whoever has written this has seen: of what is saved otherwise, nothing is
	// written.
	Was string `json:"was"`
}

// Edited is what became of it.
type Edited struct {
	Changed bool   `json:"changed"` // false: it was saved like that already
	Number  int64  `json:"config_number"`
	Kept    string `json:"kept,omitempty"` // a file with what was saved, where that did not serve
}

// savedConfiguration reads the files.
func (a *API) savedConfiguration(r *http.Request) (any, error) {
	if err := onSocket(r); err != nil {
		return nil, err
	}
	g := a.engine.Current()
	if g == nil {
		return nil, engine.ErrReplaced
	}
	v := SavedConfiguration{Files: []SavedFile{}, Editable: mayEdit(g.Config),
		Shared: g.Config.Store.Kind == config.Postgres}
	for _, f := range g.Config.Files {
		if f.Text == nil {
			continue
		}
		text, err := config.ReadText(f.Path)
		if err != nil {
			return nil, problem(http.StatusConflict, "reading what is saved: %v", err)
		}
		digest := config.DigestOf(text)
		v.Files = append(v.Files, SavedFile{f.Path, text, digest, digest == f.SHA256})
	}
	return v, nil
}

// editing has one edit at a time: the second one sees what the first has written.
var editing sync.Mutex

// maxEdit is how long an edit may take from when its file is written, whoever waits for it: a provider may start.
const maxEdit = 2 * time.Minute

// editConfiguration writes one of the files and loads it, or leaves all as it was.
func (a *API) editConfiguration(r *http.Request) (any, error) {
	if err := onSocket(r); err != nil {
		return nil, err
	}
	in, err := readJSONUpTo[EditRequest](r, maxPlanBody)
	if err != nil {
		return nil, err
	}
	editing.Lock()
	defer editing.Unlock()
	g := a.engine.Current()
	if g == nil {
		return nil, engine.ErrReplaced
	}
	if !mayEdit(g.Config) {
		return nil, problem(http.StatusForbidden, "the gateway does not write its own files: `fareway gateway apply "+
			"NEW.hcl` on its machine does, or write edit_configuration = true into the portal block there")
	}
	path, err := fileOf(g.Config, in.File)
	if err != nil {
		return nil, err
	}
	plan, err := a.planOf(r, g.Config, config.Overlay{path: &in.Text})
	switch {
	case err != nil:
		return nil, err
	case !plan.OK:
		return nil, problem(http.StatusUnprocessableEntity, "the configuration is not written: %s", refusalOf(&plan))
	case len(plan.Files) == 0:
		return Edited{Number: plan.Number}, nil
	case plan.Files[0].SavedSHA256 != in.Was:
		return nil, problem(http.StatusConflict, "%s was saved by somebody else in the meantime: nothing was written, look "+
			"at what they have changed", path)
	}
	// Whoever asked may be gone: it is done all the same, or not at all.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxEdit)
	defer cancel()
	return a.installEdit(engine.WithCause(ctx, "edit by "+actorOf(r)), &plan)
}

// installEdit says in the audit trail who writes a plan of one file, installs it and loads it.
func (a *API) installEdit(ctx context.Context, plan *Plan) (Edited, error) {
	file := plan.Files[0]
	digests := map[string]any{"sha256": config.DigestOf(*file.Text), "was_sha256": file.SavedSHA256}
	// First: what an edit changes, who may do what among it, must not serve before anybody can say who did it.
	if err := a.engine.Store().RecordAct(ctx, "configuration.edit", "", file.Path, digests); err != nil {
		return Edited{}, problem(http.StatusServiceUnavailable, "nothing is written that nobody can say later who did: %w",
			err)
	}
	// What is undone is undone whatever time is left.
	ctxUndo, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxEdit)
	defer cancel()
	undone := func() error {
		return a.engine.Store().RecordAct(ctxUndo, "configuration.edit_undone", "", file.Path, digests)
	}
	done, err := Install(plan.Files, plan.Config, a.engine.Now())
	if err != nil {
		return Edited{}, problem(http.StatusConflict, "%w", errors.Join(err, undone()))
	}
	giveUp := func(status int, why error) (Edited, error) {
		if err := done.Undo(); err != nil {
			return Edited{}, problem(http.StatusInternalServerError, "%w; putting back %s as it was failed, too, so look at it "+
				"on the gateway's machine: %w", why, file.Path, err)
		}
		// Without it what serves would be called different from what is saved until the next look.
		_, err := a.engine.Reload(ctxUndo)
		if err = errors.Join(err, undone()); err != nil {
			why = fmt.Errorf("%w; and then: %w", why, err)
		}
		return Edited{}, problem(status, "%w; the file is put back as it was", why)
	}
	_, err = a.engine.Reload(ctx)
	if refused, ok := errors.AsType[*engine.RefusedError](err); ok {
		text := refused.Text()
		if text == "" {
			text = refused.Problem
		}
		return giveUp(http.StatusUnprocessableEntity, fmt.Errorf("the gateway has refused it when it was "+
			"loaded:\n\n%s", text))
	}
	if err != nil {
		return giveUp(http.StatusInternalServerError, fmt.Errorf("loading what was written: %w", err))
	}
	in := a.engine.InForce()
	if in.Generation == nil || in.Config.Hash != plan.NewHash {
		return giveUp(http.StatusConflict, errors.New("a file of the configuration has changed in the meantime"))
	}
	v := Edited{Changed: true, Number: in.Number}
	if kept := done.KeptFiles(); len(kept) > 0 {
		v.Kept = kept[0]
	}
	return v, nil
}

// refusalOf is why a plan is not taken, for people.
func refusalOf(p *Plan) string {
	if p.Text != "" {
		return "it has errors:\n\n" + p.Text
	}
	text := "the gateway would refuse it:"
	for _, why := range slices.Sorted(slices.Values(p.Refused)) {
		text += "\n" + why
	}
	return text
}
