package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fareway/fareway/modules/routelab/learn"
	"github.com/fareway/fareway/modules/routelab/measure"
)

// evalAgree measures what --agree says.
func evalAgree(sets []*learn.Dataset, agree string, seed uint64) ([]measure.Agreement, error) {
	if agree == "best" {
		return measure.AgreeBest(sets, seed)
	}
	names := strings.Split(agree, ",")
	if len(names) != 3 {
		return nil, errors.New("--agree needs three models, two seats and what is escalated to, as in A,B,C; or best")
	}
	return measure.Agree(sets, [2]string{names[0], names[1]}, names[2], seed)
}

// writeAgreements writes a line for each data set, and its half.
func writeAgreements(w io.Writer, list []measure.Agreement) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "DATASET\tPROMPTS\tSEATS\tESCALATE\tAGREED\tRIGHT\tQUALITY\tCOST\tSINGLE\tQUALITY\tCOST\t"+
			"GAIN\tLOW\tHIGH\tSAVED\tLOW\tHIGH")
		for _, a := range list {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.3f\t%.3f\t%.4f\t%.4f\t%s\t%.4f\t%.4f\t%+.4f\t%+.4f\t%+.4f\t%.3f\t%.3f\t%.3f\n",
				a.Dataset, a.N, strings.Join(a.Seats[:], ", "), a.Escalate, a.Agreed, a.Right, a.Quality, 1000*a.Cost, a.Single,
				a.SingleQuality, 1000*a.SingleCost, a.Gain.Value, a.Gain.Low, a.Gain.High, a.Saved.Value, a.Saved.Low,
				a.Saved.High)
		}
	})
}
