package command

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
)

// calibrateProfiles asks the gateway which rates its own requests would give its profiles.
func calibrateProfiles(cmd *cobra.Command, to *target, out *output, since string) error {
	from, err := human.ParsePast(since, time.Now())
	if err != nil {
		return err
	}
	var c engine.Calibration
	path := "/fareway/profiles/calibration?since=" + url.QueryEscape(from.Format(time.RFC3339))
	if err := to.call(cmd, "GET", path, nil, &c); err != nil {
		return err
	}
	return out.print(cmd, c, func(w io.Writer) { printCalibration(w, &c) })
}

// printCalibration writes the rates, and what the requests come to at them.
func printCalibration(w io.Writer, c *engine.Calibration) {
	if c.Used == 0 {
		fmt.Fprintf(w, "No rates to propose: of %s since %s the predictor has read none that a route was chosen for.\n",
			human.Count(c.Requests, "request"), human.Moment(c.Since))
		return
	}
	fmt.Fprintf(w, "Rates on %s of %s since %s, as expected:\n\n", human.Thousands(c.Used),
		human.Count(c.Requests, "request"), human.Moment(c.Since))
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "PROFILE\tRATE\tQUALITY\tUS$ FOR 1,000\tPROPOSED\tQUALITY\tUS$ FOR 1,000\tWEIGHTS\tGIVE")
		for i := range c.Profiles {
			p := &c.Profiles[i]
			fmt.Fprintf(w, "%s\t%s\t%.3f\t%s\t%s\t%.3f\t%s\tcost = %g, quality = %g\t%s\n", p.Profile, rateText(p.Rate),
				p.Now.Quality, forThousand(p.Now.Microcents), rateText(p.Proposed), p.Then.Quality,
				forThousand(p.Then.Microcents), p.Cost, p.Quality, rateText(p.Gives))
		}
	})
	fmt.Fprintln(w, "\nNothing has changed: put weights into a profile, and `fareway gateway plan` says what that "+
		"changes.")
}
