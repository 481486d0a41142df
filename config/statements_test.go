package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// In a file that does not parse nothing says in which block a line was meant to stand: no value is shown, whatever the
// name before it. The rest of the line is, as far as it is surely a name.
func TestUnparsedFilesShowNoValue(t *testing.T) {
	t.Parallel()
	const key = "hunter2"
	provider := func(line string) string {
		return "provider \"p\" {\n  plugin = \"openai\"\n  config {\n" + line + "\n  }\n}\n" + minimal
	}
	for name, test := range map[string]struct{ text, shown string }{
		"a brace within the name":  {provider(`    api_}key = "hunter2"`), `***}key = "***"`},
		"a brace before the name":  {provider(`    }} } model = "hunter2"`), `model = "***"`},
		"without quotes":           {provider(`    api_}key = hunter2`), `***}key = ***`},
		"half of the quotes":       {provider(`    api_}key = hunter2"`), `***}key = ***`},
		"in a list":                {provider(`    api_}terms = ["hunter2", hunter2]`), `***}terms = ["***", ***]`},
		"a number":                 {strings.ReplaceAll(provider(`    api_}key = hunter2`), key, "7777777"), `***}key = ***`},
		"the block's name broken":  {provider("    }\n  conf {\n    model = \"hunter2\" x"), `model = "***" ***`},
		"end of base64":            {provider("    api_key = <EOT\nhunter2=\nEOT"), `api_key = ***`},
		"end of base64, at fault":  {provider("") + "\nhunter2=\n", `***=`},
		"end of base64, last line": {provider("") + "\nhunter2=", `***=`},
		"equals sign missing":      {provider("    }\n  store \"hunter2\""), `store "***"`},
		"quote missing":            {provider("    }\n  }\n  route \"x\" hunter2\" {"), `route "***" ***"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, diags := loadText(t, test.text)
			require.Nil(t, config)
			require.Len(t, diags.All(), 1)
			out := printed(t, diags)
			require.NotContains(t, out, key)
			require.NotContains(t, out, "7777777")
			require.NotContains(t, diags.Error(), key)
			require.Contains(t, out, test.shown)
		})
	}
}
