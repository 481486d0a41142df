package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Board is the result of a run, and what it was a run of (VER-05).
type Board struct {
	Build   string // what the deployment says it is
	Client  string // this suite
	Own     string // the build that clauses of kind ops were tested on; "" when they were not
	Results []Result
}

// Failed is the number of clauses that did not hold.
func (b Board) Failed() int { return b.count()[Fail] }

func (b Board) count() map[Status]int {
	n := make(map[Status]int)
	for _, r := range b.Results {
		n[r.Status]++
	}
	return n
}

// sum is one line that says it all.
func (b Board) sum() string {
	n := b.count()
	return fmt.Sprintf("%d clauses: %d PASS, %d FAIL, %d EXCLUDED, %d Pending", len(b.Results), n[Pass], n[Fail],
		n[Excluded], n[Pending])
}

// WriteText prints the board for people: a line for each clause, with the detail under it.
func (b Board) WriteText(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "build   %s\nclient  %s\n", b.Build, b.Client)
	if b.Own != "" {
		fmt.Fprintf(&out, "own     %s (for what no client can see)\n", b.Own)
	}
	out.WriteString("\n")
	for _, r := range b.Results {
		fmt.Fprintf(&out, "%-8s  %-8s  %s\n", r.Status, r.ID, r.Clause)
		if r.Detail != "" && r.Status != Pass {
			fmt.Fprintf(&out, "%20s%s\n", "", r.Detail)
		}
	}
	fmt.Fprintf(&out, "\n%s\n", b.sum())
	_, err := io.WriteString(w, out.String())
	return err
}

// WriteMarkdown prints the board as a table.
func (b Board) WriteMarkdown(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "Build: %s  \nClient: %s  \n", cellText(b.Build), cellText(b.Client))
	if b.Own != "" {
		fmt.Fprintf(&out, "Own gateways, for what no client can see: %s  \n", cellText(b.Own))
	}
	fmt.Fprintf(&out, "%s\n\n| clause | status | says | detail |\n|---|---|---|---|\n", b.sum())
	for _, r := range b.Results {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.ID, r.Status, cellText(r.Clause), cellText(r.Detail))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// cellText keeps a text inside its cell.
func cellText(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// boardRow is a result as JSON has it: each names its build and client, so that rows of several runs can be put
// together.
type boardRow struct {
	Result
	Build  string `json:"build"`
	Own    string `json:"own,omitempty"`
	Client string `json:"client"`
}

// WriteJSON prints the results as an array.
func (b Board) WriteJSON(w io.Writer) error {
	rows := make([]boardRow, 0, len(b.Results))
	for _, r := range b.Results {
		rows = append(rows, boardRow{r, b.Build, b.Own, b.Client})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}
