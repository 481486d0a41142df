package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// question is what is asked before something is done that is hard to undo.
type question struct {
	ask string // "Apply this?"
	do  string // what --yes does: "apply it"
	not string // what is said where the answer is no: "it is not applied: nothing has changed"
}

// confirm asks whoever sits there. Where nobody does, or the output is JSON, it is an error that names --yes.
func (q question) confirm(cmd *cobra.Command, w io.Writer, out output) error {
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); out.json || ok && !term.IsTerminal(int(f.Fd())) {
		return fmt.Errorf("nobody is there to be asked: say --yes to %s", q.do)
	}
	fmt.Fprintf(w, "\n%s [y/N] ", q.ask)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New(q.not)
	}
	return nil
}
