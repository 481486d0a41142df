package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// negativeNote is the annotation of commands that take a number, with what to do instead of giving one below zero: the
// library takes that for an option.
const negativeNote = "fareway:negative"

// wrongFlag says what is wrong with an option, and what is right, in place of the library's words.
func wrongFlag(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && isNumber(unknown.GetSpecifiedShortnames()) && cmd.Annotations[negativeNote] != "":
		return fmt.Errorf("-%s is below zero: %s", unknown.GetSpecifiedShortnames(), cmd.Annotations[negativeNote])
	case unknown != nil && unknown.GetSpecifiedShortnames() != "" && takesNames(cmd):
		return fmt.Errorf("%w (`%s --help` shows what there is; what begins with a dash and is no option stands behind --)",
			err, cmd.CommandPath())
	case errors.As(err, &invalid) && whatToWrite[invalid.GetFlag().Value.Type()] != "":
		f := invalid.GetFlag()
		return fmt.Errorf("--%s %q: write %s", f.Name, invalid.GetValue(), whatToWrite[f.Value.Type()])
	}
	return fmt.Errorf("%w (`%s --help` shows what there is)", err, cmd.CommandPath())
}

// whatToWrite is what options of a type take.
var whatToWrite = map[string]string{
	"int":      "a whole number, as in 200000",
	"int64":    "a whole number, as in 200000",
	"bool":     "true or false, or the option alone",
	"duration": "a duration, as in 24h or 90s",
}

// takesNames reports whether a command takes something beside options.
func takesNames(cmd *cobra.Command) bool {
	_, takes, _ := strings.Cut(cmd.Use, " ")
	takes, _, _ = strings.Cut(takes, "--")
	return strings.ToLower(takes) != takes
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789,._") == ""
}

// notBoth refuses two options that exclude each other; why says which does what.
func notBoth(cmd *cobra.Command, one, other, why string) error {
	if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
		return fmt.Errorf("--%s and --%s do not go together: %s", one, other, why)
	}
	return nil
}

// required says which flags a command cannot do without.
func required(cmd *cobra.Command, names ...string) {
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		for _, name := range names {
			if !cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is missing, as in `%s`", name, cmd.UseLine())
			}
		}
		return nil
	})
}
