package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/human"
)

// fmtView is the result of `gateway fmt`.
type fmtView struct {
	OK          bool                `json:"ok"`
	Files       []fmtFile           `json:"files"`
	Diagnostics []config.Diagnostic `json:"diagnostics"` // as `gateway check --json` has them
}

type fmtFile struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"` // or to be changed, with --check and --diff
	Text    string `json:"text,omitempty"`

	config.Formatted `json:"-"`
}

func fmtCommand() *cobra.Command {
	var (
		out         output
		check, diff bool
	)
	cmd := &cobra.Command{
		Use:   "fmt FILE...",
		Short: "Brings HCL configurations into the usual form",
		Long: `Brings HCL configurations, and the files that they include, into the usual form
and prints the names of those that it changed. A file named - is the standard
input, whose usual form is printed. Where one of them does not parse, all are left
as they are.`,
		Example: "  fareway gateway fmt gateway.hcl\n  fareway gateway fmt --check --diff gateway.hcl",
		Args:    someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := formatAll(cmd, args, !check && !diff, !out.json)
			if err != nil {
				return err
			}
			err = out.print(cmd, v, func(w io.Writer) {
				for _, f := range v.Files {
					switch {
					case f.Path == standardInput && !check && !diff:
						fmt.Fprint(w, f.Text)
					case f.Changed && diff:
						printDifference(w, f.Formatted)
					case f.Changed:
						fmt.Fprintln(w, f.File)
					}
				}
			})
			different := slices.ContainsFunc(v.Files, func(f fmtFile) bool { return f.Changed })
			if err == nil && (!v.OK || check && different) {
				err = exitSilently(cmd)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing: exit with 1 when a file is not in the usual form")
	cmd.Flags().BoolVar(&diff, "diff", false, "write nothing: print what would change")
	out.addFlag(cmd)
	return cmd
}

// formatAll formats the files. If it shall, it writes them where they are, and prints what is wrong in them.
func formatAll(cmd *cobra.Command, args []string, write, report bool) (fmtView, error) {
	v := fmtView{OK: true, Files: []fmtFile{}, Diagnostics: []config.Diagnostic{}}
	var changed []config.Formatted
	var seen []string
	for _, arg := range args {
		formatted, diags, err := format(cmd, arg)
		if err != nil {
			return v, err
		}
		if report {
			if err := diags.Write(cmd.ErrOrStderr(), human.IsTerminal(cmd.ErrOrStderr())); err != nil {
				return v, err
			}
		}
		v.OK = v.OK && !diags.HasErrors()
		v.Diagnostics = append(v.Diagnostics, diags.All()...)
		for _, f := range formatted {
			if real, err := filepath.EvalSymlinks(f.Path); err == nil {
				if slices.Contains(seen, real) {
					continue // by another name
				}
				seen = append(seen, real)
			}
			file := fmtFile{File: f.Path, Changed: !bytes.Equal(f.Before, f.After), Formatted: f}
			switch {
			case f.Path == standardInput:
				file.Text = string(f.After)
			case file.Changed && write:
				changed = append(changed, f)
			}
			v.Files = append(v.Files, file)
		}
	}
	var changes files.Changes
	if write && !v.OK { // and nothing is written of those that parse
		for i := range v.Files {
			v.Files[i].Changed = false
		}
		return v, nil
	}
	for _, f := range changed {
		if err := replace(f, &changes); err != nil {
			return v, errors.Join(err, changes.TakeBack())
		}
	}
	return v, nil
}

func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which file? `%s gateway.hcl` takes the included ones, too", cmd.CommandPath())
	}
	return nil
}

// standardInput is a file's name for the text that is piped in.
const standardInput = "-"

func format(cmd *cobra.Command, name string) ([]config.Formatted, *config.Diagnostics, error) {
	if name != standardInput {
		formatted, diags := config.Format(name)
		return formatted, diags, nil
	}
	text, err := io.ReadAll(cmd.InOrStdin())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the standard input: %w", err)
	}
	after, diags := config.FormatText("<standard input>", text)
	if diags.HasErrors() {
		return nil, diags, nil
	}
	return []config.Formatted{{Path: standardInput, Before: text, After: after}}, diags, nil
}

// replace writes a file in its usual form where it is: the file itself, not a link to it.
func replace(f config.Formatted, changes *files.Changes) error {
	path, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	now, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(now, f.Before) {
		return fmt.Errorf("%s was changed by somebody else at this moment: nothing was written, try again", f.Path)
	}
	return changes.Replace(path, f.After)
}

// printDifference prints the lines that differ. The usual form has the same lines, each with other blanks; only empty
// ones at the end are fewer.
func printDifference(w io.Writer, f config.Formatted) {
	before, after := bytes.SplitAfter(f.Before, []byte("\n")), bytes.SplitAfter(f.After, []byte("\n"))
	line := func(lines [][]byte, i int) []byte {
		if i < len(lines) {
			return lines[i]
		}
		return nil
	}
	same := func(i int) bool { return bytes.Equal(line(before, i), line(after, i)) }
	put := func(sign string, lines [][]byte) {
		for _, l := range lines {
			switch {
			case len(l) == 0:
			case bytes.HasSuffix(l, []byte("\n")):
				fmt.Fprintf(w, "%s%s", sign, l)
			default:
				fmt.Fprintf(w, "%s%s\n\\ No newline at end of file\n", sign, l)
			}
		}
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n", f.Path, f.Path)
	for i := 0; i < len(before); {
		if same(i) {
			i++
			continue
		}
		end := i
		for end < len(before) && !same(end) {
			end++
		}
		old, changed := before[i:end], after[min(i, len(after)):min(end, len(after))]
		fmt.Fprintf(w, "@@ -%d,%d +%d,%d @@\n", i+1, count(old), i+1, count(changed))
		put("-", old)
		put("+", changed)
		i = end
	}
}

// count is how many lines there are: behind the last line break is none.
func count(lines [][]byte) int {
	n := len(lines)
	if n > 0 && len(lines[n-1]) == 0 {
		n--
	}
	return n
}
