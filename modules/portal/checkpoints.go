package portal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/portal/views"
)

// shownCheckpoints is how many a page shows.
const shownCheckpoints = 50

func showCheckpoints(v *visit) error { return v.checkpointsPage(views.Checkpoints{}) }

func (v *visit) checkpointsPage(view views.Checkpoints) error {
	before, _ := strconv.ParseInt(v.r.URL.Query().Get("before"), 10, 64)
	before = max(before, 0) // of all
	list, err := v.checkpoints(before, shownCheckpoints+1)
	if err != nil {
		return err
	}
	if view.List = list; len(list) > shownCheckpoints {
		view.List = list[:shownCheckpoints]
		view.Before = view.List[shownCheckpoints-1].N
	}
	view.May = v.powers()
	return v.show(views.CheckpointsPage(v.page("Checkpoints"), view))
}

// checkpoints are the newest before a number (0: of all), the newest first, and so many at most.
func (v *visit) checkpoints(before int64, most int) (list []ledger.Checkpoint, err error) {
	q := url.Values{"before": {strconv.FormatInt(before, 10)}, "limit": {strconv.Itoa(most)}}
	err = admin.ReadList(v.r.Context(), v.api(v.engine, v.actor()), "/fareway/ledger/checkpoints", q,
		func(c ledger.Checkpoint) error {
			list = append(list, c)
			return nil
		})
	return list, err
}

// downloadCheckpoint gives one as `ledger checkpoint` prints it.
func downloadCheckpoint(v *visit) error {
	number, err := strconv.ParseInt(v.r.PathValue("number"), 10, 64)
	if err != nil || number < 1 {
		return errNotFound
	}
	list, err := v.checkpoints(number+1, 1)
	if err != nil {
		return err
	}
	if len(list) == 0 || list[0].N != number {
		return errNotFound
	}
	line, err := json.Marshal(admin.KeptCheckpoint{Checkpoint: list[0]})
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.Header().Set("Content-Disposition", `attachment; filename="checkpoint-`+strconv.FormatInt(number, 10)+`.json"`)
	_, _ = v.w.Write(append(line, '\n')) // the browser may be gone
	return nil
}

// changeCheckpoints makes one, or compares one that was kept elsewhere.
func changeCheckpoints(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	switch form.Get("act") {
	case "make":
		err := v.api(v.engine, v.actor()).Call(v.r.Context(), http.MethodPost, "/fareway/ledger/checkpoints", nil,
			new(ledger.Checkpoint))
		if err != nil {
			return err
		}
		v.done("/portal/operator/checkpoints", "made")
		return nil
	case "verify":
		return v.verifyCheckpoint(strings.TrimSpace(form.Get("kept")), form.Get("only") != "")
	}
	return errBadForm
}

// verifyCheckpoint recomputes the ledger, and looks whether it still has what a checkpoint has fixed.
func (v *visit) verifyCheckpoint(text string, onlyAfter bool) error {
	view := views.Checkpoints{Kept: text, OnlyAfter: onlyAfter}
	refuse := func(status int, why string) error {
		v.status, v.fault = status, v.language.Text(why)
		return v.checkpointsPage(view)
	}
	var kept struct {
		Checkpoint *ledger.Checkpoint `json:"checkpoint"`
	}
	if err := json.Unmarshal([]byte(text), &kept); err != nil || kept.Checkpoint == nil || kept.Checkpoint.N < 1 {
		return refuse(http.StatusBadRequest, "That is no checkpoint: it is one line, as it was downloaded here or printed "+
			"by `fareway gateway ledger checkpoint`.")
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), maxLook)
	defer cancel()
	how := admin.Verification{Checkpoints: []ledger.Checkpoint{*kept.Checkpoint}}
	if onlyAfter {
		how.From = kept.Checkpoint
	}
	verified, began := new(admin.Verified), time.Now()
	err := v.api(v.engine, v.actor()).Call(ctx, http.MethodPost, "/fareway/ledger/verify", how, verified)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(http.StatusGatewayTimeout, "It takes longer than a minute: `fareway gateway ledger verify "+
			"--checkpoint FILE` on the gateway's machine says how far it is.")
	case admin.StatusOf(err) == http.StatusTooManyRequests:
		return refuse(http.StatusTooManyRequests, othersWork)
	case err != nil:
		return err
	}
	view.Verified, view.Took = verified, time.Since(began)
	return v.checkpointsPage(view)
}
