package command

import (
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/gateway"
)

// ownCommands makes the hints of a command and those below it own: what its help says, and its errors.
func ownCommands(cmd *cobra.Command) {
	cmd.Long, cmd.Example = gateway.Own(cmd.Long), gateway.Own(cmd.Example)
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return shownError{gateway.OwnError(err)}
			}
			return nil
		}
	}
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return shownError{gateway.OwnError(err)}
			}
			return nil
		}
	}
	for _, below := range cmd.Commands() {
		ownCommands(below)
	}
}
