package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/change"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/history"
	"github.com/fareway/fareway/modules/internal/routing"
)

// PlanRequest asks what a configuration would change: one of the two.
type PlanRequest struct {
	// Text is that of the HCL file, in place of what is saved. What it names is as it is saved.
	Text *string `json:"text,omitempty"`
	// File is the path of the one of the configuration's files that Text is of; "": the one that names the others.
	File string `json:"file,omitempty"`
	// Kept is the number of a configuration that was in force.
	Kept int64 `json:"kept,omitempty"`
}

// Plan is what a configuration would change in place of the one that serves.
type Plan struct {
	OK          bool                `json:"ok"`        // it would be taken
	Different   bool                `json:"different"` // something would change
	Config      string              `json:"config"`    // path of the HCL file
	Changes     []change.Block      `json:"changes"`
	Refused     []string            `json:"refused"`        // why a gateway that runs would not take it
	Diagnostics []config.Diagnostic `json:"diagnostics"`    // as `gateway check --json` has them
	Text        string              `json:"text,omitempty"` // as `gateway check` prints them
	// Profiles are those whose rate, or what they make of the reference workload, would change.
	Profiles []ProfileChange `json:"profiles"`

	// ConfigHash and Number are of the configuration that serves: of what it was compared with.
	ConfigHash string `json:"config_hash"`
	Number     int64  `json:"config_number"`
	// Untried: providers were not started for a moment, to see that they work with other settings.
	Untried bool `json:"untried,omitempty"`
	// NewHash is what ConfigHash is when it serves; "" of one that has errors.
	NewHash string `json:"new_config_hash"`
	// Files are those that installing it changes, with the digests of what they replace.
	Files []PlanFile `json:"files"`
}

// ProfileChange is what a profile makes of the reference workload, by either configuration.
type ProfileChange struct {
	Profile string            `json:"profile"`
	Before  *routing.Prospect `json:"before"`
	After   *routing.Prospect `json:"after"`
}

// ProfileChanges are the profiles that two configurations make another thing of.
func ProfileChanges(before, after []routing.Prospect) []ProfileChange {
	list := []ProfileChange{}
	for i := range after {
		at := slices.IndexFunc(before, func(p routing.Prospect) bool { return p.Profile == after[i].Profile })
		if at >= 0 && !before[at].Same(&after[i]) {
			list = append(list, ProfileChange{after[i].Profile, &before[at], &after[i]})
		}
	}
	return list
}

// PlanFile is a file that differs from what is saved.
type PlanFile struct {
	Path string `json:"path"`
	// Text is the file's new content; null of one that must not be there, because what was kept did not have it.
	Text *string `json:"text"`
	// SavedSHA256 is of what is saved, in hex; "" when there is no such file.
	SavedSHA256 string `json:"saved_sha256"`
	// Unkept: what is saved does not serve, as after a save that was refused, and so is kept nowhere else.
	Unkept bool `json:"unkept"`
}

// Configuration is one that was in force.
type Configuration struct {
	Number     int64      `json:"number"`
	Since      time.Time  `json:"since"`
	ConfigHash string     `json:"config_hash"`
	InForce    bool       `json:"in_force"`
	By         string     `json:"by,omitempty"` // what brought it into force, and who as far as that is known
	Files      []KeptFile `json:"files"`
}

// KeptFile is a file of it.
type KeptFile struct {
	Path string `json:"path"`
	// Text is its content; null of what file("...") brought, which may be a secret. A list leaves it out.
	Text *string `json:"text,omitempty"`
}

// maxPlanBody is above a configuration of the largest size, written as JSON.
const maxPlanBody = 16 << 20

// plan says what a configuration would change.
func (a *API) plan(r *http.Request) (any, error) {
	if err := onSocket(r); err != nil {
		return nil, err
	}
	in, err := readJSONUpTo[PlanRequest](r, maxPlanBody)
	if err != nil {
		return nil, err
	}
	g := a.engine.Current()
	if g == nil {
		return nil, engine.ErrReplaced
	}
	installed := make(config.Overlay)
	switch {
	case in.Text != nil:
		path, err := fileOf(g.Config, in.File)
		if err != nil {
			return nil, err
		}
		installed[path] = in.Text
	case in.Kept > 0:
		if installed, err = a.restored(in.Kept, g.Config.Path); err != nil {
			return nil, err
		}
	}
	return a.planOf(r, g.Config, installed)
}

// planOf is the plan of what stands in for files.
func (a *API) planOf(r *http.Request, serving *config.Config, installed config.Overlay) (Plan, error) {
	plan := a.engine.Plan
	if bounded(r, serving) {
		if d := beyond(serving, installed); d.HasErrors() {
			return viewPlan(&engine.Planned{Serving: serving, Diagnostics: d}, a.engine.InForce().Number), nil
		}
		plan = a.engine.PlanUntried
	}
	p, err := plan(r.Context(), installed)
	if err != nil {
		return Plan{}, err
	}
	v := viewPlan(p, a.engine.InForce().Number)
	v.Untried = bounded(r, serving)
	if fromPage(r) {
		hideOutside(&v, p)
	}
	v.Files, err = planFiles(p.Serving, installed)
	return v, err
}

// fromPage reports whether a request is one that the portal makes for somebody: what has come over the network to it
// is no more than that.
func fromPage(r *http.Request) bool {
	_, is := r.Context().Value(localActorKey{}).(string)
	return is
}

// bounded reports whether a request may name nothing of this machine but what the configuration that serves names.
func bounded(r *http.Request, serving *config.Config) bool { return fromPage(r) && !mayEdit(serving) }

// mayEdit reports whether pages may write the configuration's files.
func mayEdit(cfg *config.Config) bool { return cfg.Portal != nil && cfg.Portal.EditConfiguration }

// beyond is what of the texts goes beyond what serves.
func beyond(serving *config.Config, installed config.Overlay) *config.Diagnostics {
	all := new(config.Diagnostics)
	for path, text := range installed {
		if text == nil {
			continue
		}
		if d := serving.CheckReach(path, *text); d.HasErrors() {
			return d
		}
	}
	return all
}

// hideOutside takes values out that came from the environment or from a file: each may be a secret, wherever the text
// has put it.
func hideOutside(v *Plan, p *engine.Planned) {
	var secrets []string
	for _, cfg := range []*config.Config{p.Serving, p.Config} {
		if cfg != nil {
			secrets = append(secrets, cfg.OutsideValues()...)
		}
	}
	hide := func(value json.RawMessage) json.RawMessage {
		for _, secret := range secrets {
			b, err := json.Marshal(secret)
			if len(secret) >= shortestSecret && (err != nil || bytes.Contains(value, b[1:len(b)-1])) {
				return json.RawMessage(`"***"`)
			}
		}
		return value
	}
	for i := range v.Changes {
		for j := range v.Changes[i].Fields {
			f := &v.Changes[i].Fields[j]
			f.Before, f.After = hide(f.Before), hide(f.After)
		}
	}
}

// shortestSecret is from how many bytes on a value from outside is looked for: shorter ones are flags and numbers.
const shortestSecret = 6

// fileOf is the path of one of the configuration's own files: of its texts, not of what file("...") brings.
func fileOf(cfg *config.Config, path string) (string, error) {
	if path == "" {
		return cfg.Path, nil
	}
	for _, f := range cfg.Files {
		if f.Path == path && f.Text != nil {
			return path, nil
		}
	}
	return "", problem(http.StatusNotFound, "%q is no file of the configuration that serves: GET /fareway/configuration "+
		"lists them", path)
}

// onSocket refuses a configuration, or a program, that comes from elsewhere.
func onSocket(r *http.Request) error {
	if r.TLS == nil {
		return nil
	}
	return problem(http.StatusForbidden, "what can read files and start programs is not taken over a network: use the "+
		"gateway's socket, on its own machine")
}

// restored is what a kept configuration puts in the place of what is saved: its own texts, and nothing in place of
// what it would include by now and did not have.
func (a *API) restored(number int64, path string) (config.Overlay, error) {
	k, err := a.kept(number)
	if err != nil {
		return nil, err
	}
	if was := k.Files[0].Path; was != path {
		return nil, problem(http.StatusConflict, "configuration %d was that of %s, and the gateway's file is %s now: take "+
			"its text from `fareway gateway diff`, or from GET /fareway/configurations/%d", number, was, path, number)
	}
	installed := config.Overlay(k.Texts())
	for _, f := range config.Named(path, installed) {
		if f.Text != nil && installed[f.Path] == nil {
			installed[f.Path] = nil
		}
	}
	return installed, nil
}

// planFiles are the files that installing changes.
func planFiles(serving *config.Config, installed config.Overlay) ([]PlanFile, error) {
	list := []PlanFile{}
	for _, path := range slices.Sorted(maps.Keys(installed)) {
		f := PlanFile{Path: path, Text: installed[path]}
		switch content, err := os.ReadFile(path); {
		case err == nil:
			f.SavedSHA256 = config.DigestOf(string(content))
		case !errors.Is(err, fs.ErrNotExist):
			return nil, problem(http.StatusConflict, "reading what is installed: %v", err)
		}
		if f.Text == nil || config.DigestOf(*f.Text) != f.SavedSHA256 {
			serves := slices.ContainsFunc(serving.Files, func(s config.File) bool {
				return s.Path == path && s.SHA256 == f.SavedSHA256
			})
			f.Unkept = f.SavedSHA256 != "" && !serves
			list = append(list, f)
		}
	}
	return list, nil
}

func viewPlan(p *engine.Planned, number int64) Plan {
	v := Plan{OK: p.OK(), Config: p.Serving.Path, Changes: p.Changes, Refused: p.Refused,
		Diagnostics: p.Diagnostics.All(), ConfigHash: p.Serving.Hash, Number: number, Files: []PlanFile{},
		Profiles: ProfileChanges(p.Before, p.After)}
	v.Different = p.Config != nil && len(p.Changes) > 0
	if v.Changes == nil {
		v.Changes = []change.Block{}
	}
	if v.Refused == nil {
		v.Refused = []string{}
	}
	if v.Diagnostics == nil {
		v.Diagnostics = []config.Diagnostic{}
	}
	var report strings.Builder
	_ = p.Diagnostics.Write(&report, false) // a builder takes everything
	v.Text = report.String()
	if p.Config != nil {
		v.NewHash = p.Config.Hash
	}
	return v
}

func (a *API) kept(number int64) (history.Kept, error) {
	k, err := a.engine.History().Get(number)
	if errors.Is(err, history.ErrNotKept) {
		return k, problem(http.StatusNotFound, "configuration %d is not kept: `fareway gateway history` lists those that are",
			number)
	}
	return k, err
}

// configurations lists those that were in force, the newest first.
func (a *API) configurations(*http.Request) (any, error) {
	list, err := a.engine.History().List()
	if err != nil && len(list) == 0 {
		return nil, err
	}
	now := a.engine.InForce().Kept
	views := make([]Configuration, 0, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		views = append(views, viewKept(list[i], list[i].Number == now, false))
	}
	return views, nil
}

func (a *API) configuration(r *http.Request) (any, error) {
	number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if err != nil {
		return nil, problem(http.StatusBadRequest, "%q is no number of a configuration", r.PathValue("number"))
	}
	k, err := a.kept(number)
	if err != nil {
		return nil, err
	}
	return viewKept(k, number == a.engine.InForce().Kept, true), nil
}

func viewKept(k history.Kept, inForce, withTexts bool) Configuration {
	v := Configuration{Number: k.Number, Since: k.Since, ConfigHash: k.Hash, InForce: inForce, By: k.By,
		Files: []KeptFile{}}
	for _, f := range k.Files {
		one := KeptFile{Path: f.Path}
		if withTexts {
			one.Text = f.Text
		}
		v.Files = append(v.Files, one)
	}
	return v
}
