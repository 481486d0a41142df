package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/routing"
	talks "github.com/fareway/fareway/modules/internal/routing/replay"
)

// conversationsView is what conversations come to with a profile.
type conversationsView struct {
	Profile string `json:"profile"`
	talks.Result
}

// keeping is a profile beside the usual ones, for choices that go by a share of the best quality.
var keeping = config.Profile{Name: "keep 0.9", Cost: 1, KeepQuality: 0.9}

// evalConversations plays conversations, made ones or those with the structure of captured ones, through the routes of
// a configuration, or through made ones.
func evalConversations(ctx context.Context, model, hcl, captures string, seed uint64) ([]conversationsView, error) {
	m, err := readModel(model)
	if err != nil {
		return nil, err
	}
	sets := talks.Made(seed)
	if captures != "" {
		list, err := readCaptures(captures)
		if err != nil {
			return nil, err
		}
		sets = talks.Captured(list, seed)
	}
	setup := talks.Setup{Routes: talks.Routes(), Predictor: routing.NewPredictor(m)}
	profiles := append(config.DefaultProfiles(), keeping)
	if hcl != "" {
		cfg, diags := engine.CheckConfig(ctx, hcl, slog.New(slog.DiscardHandler))
		if cfg == nil {
			return nil, fmt.Errorf("reading the configuration: %w", diags.Err())
		}
		setup.Routes, profiles = slices.Clone(cfg.Routes), cfg.Profiles
		for i := range setup.Routes {
			setup.Routes[i].Price, setup.Routes[i].Cost = setup.Routes[i].In(time.Now())
		}
	}
	var views []conversationsView
	for _, profile := range profiles {
		setup.Profile = profile
		var results []talks.Result
		for _, set := range sets {
			result, err := talks.Play(setup, set)
			if err != nil {
				return nil, err
			}
			results = append(results, result)
			views = append(views, conversationsView{profile.Name, result})
		}
		views = append(views, conversationsView{profile.Name, talks.Total(results)})
	}
	return views, nil
}

// checkConversations refuses flags that have nothing to do with one another.
func checkConversations(cmd *cobra.Command, conversations bool) error {
	changed := cmd.Flags().Changed
	profiles := !conversations && changed("hcl")
	switch {
	case profiles && (changed("recorded") || changed("graded")):
		return errors.New("--hcl is for profiles and --conversations, --recorded and --graded for a model: leave one out")
	case !conversations && !profiles && !changed("recorded") && !changed("graded"):
		return fmt.Errorf("--recorded is missing, as in `%s`; or --graded, or --hcl for profiles", cmd.UseLine())
	case !conversations && changed("captures"):
		return errors.New("--captures is for --conversations")
	}
	for _, name := range [...]string{"recorded", "leave-out", "train", "folds", "report"} {
		switch {
		case conversations && changed(name):
			return fmt.Errorf("--%s is for recorded answers: leave it out, or --conversations", name)
		case profiles && name != "report" && changed(name):
			return fmt.Errorf("--%s is for recorded answers: leave it out, or --hcl", name)
		}
	}
	return nil
}

// writeConversations writes a line for each profile and kind of conversation.
func writeConversations(w io.Writer, views []conversationsView) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "PROFILE\tCONVERSATIONS\tTURNS\tKEPT\tQUALITY\tMOVES\t"+
			"AFRESH\tQUALITY\tMOVES\tSAVED\tCHEAPEST AS GOOD\tSAVED\tMIX AS GOOD\tSAVED")
		for _, v := range views {
			fixed, saved, mix, savedMix := "-", "-", "-", "-"
			if v.Route != "" {
				fixed = fmt.Sprintf("%s %s", v.Route, cents(v.Fixed[v.Route].Microcents))
				saved, mix, savedMix = shareOf(v.SavedFixed), cents(v.Mix), shareOf(v.SavedMix)
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.3f\t%d\t%s\t%.3f\t%d\t%s\t%s\t%s\t%s\t%s\n", v.Profile, v.Set, v.Turns,
				cents(v.Kept.Microcents), v.Kept.Quality, v.Kept.Moves, cents(v.Afresh.Microcents), v.Afresh.Quality,
				v.Afresh.Moves, shareOf(v.SavedAfresh), fixed, saved, mix, savedMix)
		}
	})
}

func cents(microcents float64) string { return human.Exact(int64(microcents)) }

func shareOf(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }
