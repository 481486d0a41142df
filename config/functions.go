package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// fromOutside marks a value that came from env or file: it may be a secret, so that no message and no
// printed configuration shows it.
type fromOutside struct{}

const (
	maxFile    = 64 << 10 // bytes of one file("...")
	maxOutside = 4 << 20  // bytes of all env and file calls together
)

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("too large")
)

// refusal is why a function call failed, in the words of a diagnostic.
type refusal struct{ summary, detail string }

func (r *refusal) Error() string { return r.summary + ": " + r.detail }

// outside is what the configuration takes from its surroundings, and the record of which files it named.
type outside struct {
	lookup func(string) (string, bool)
	learn  func(value string) // told of each value
	spent  int
	names  []string // absolute paths in order of first use
	files  map[string][]byte
	// digests are those of files whose content nobody wants.
	digests map[string]string
	errors  map[string]error // why files could not be read
}

func newOutside(lookup func(string) (string, bool), learn func(string)) *outside {
	return &outside{lookup: lookup, learn: learn, files: make(map[string][]byte), digests: make(map[string]string),
		errors: make(map[string]error)}
}

// context has what the expressions of one file can use: `file` starts in its folder.
func (e *evaluator) context(at hcl.Range) *hcl.EvalContext {
	known, ok := e.contexts[at.Filename]
	if !ok {
		dir := e.dir(at)
		known = e.base.NewChild()
		known.Functions = map[string]function.Function{
			"file": textFunction("path", func(path, shown string) (string, error) {
				return e.outside.file(dir, path, shown)
			}),
		}
		e.contexts[at.Filename] = known
	}
	return known
}

// textFunction makes a function of one text. An argument that itself came from outside is not repeated in
// what the function says.
func textFunction(parameter string, call func(argument, shown string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: parameter, Type: cty.String, AllowMarked: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			argument, marks := args[0].Unmark()
			shown := fmt.Sprintf(" %q", clip(argument.AsString()))
			if len(marks) > 0 {
				shown = ""
			}
			text, err := call(argument.AsString(), shown)
			if err != nil {
				return cty.NilVal, err
			}
			return cty.StringVal(text).Mark(fromOutside{}), nil
		},
	})
}

// unsetVariable begins what is said of a variable that is not set.
const unsetVariable = "Environment variable"

// UnsetVariable reports whether the finding is that a variable of the environment is not set: a gateway that runs has
// those of its start, and has to be restarted.
func (d Diagnostic) UnsetVariable() bool {
	return strings.HasPrefix(d.Summary, unsetVariable) && strings.HasSuffix(d.Summary, "not set")
}

func (o *outside) env(name, shown string) (string, error) {
	if !variablePattern.MatchString(name) {
		// Perhaps the secret itself was written here: it is not repeated.
		return "", &refusal{"Not the name of an environment variable",
			"A name is made of letters, digits and \"_\", for example env(\"OPENAI_API_KEY\"). The value itself does not " +
				"belong here."}
	}
	text, ok := o.lookup(name)
	if !ok {
		if shown == "" {
			return "", &refusal{unsetVariable + " not set", "Set it where the gateway is started."}
		}
		return "", &refusal{fmt.Sprintf(unsetVariable+"%s is not set", shown),
			fmt.Sprintf("Set it where the gateway is started, for example: export %s=...\nA gateway that runs has the "+
				"variables of its start: restart it, or use file(\"...\").", name)}
	}
	if !utf8.ValidString(text) {
		return "", &refusal{fmt.Sprintf("Environment variable%s is not text", shown), "Its value must be valid UTF-8."}
	}
	return o.spend(text)
}

// file reads a file that is named in a file of the folder dir.
func (o *outside) file(dir, path, shown string) (string, error) {
	if path == "" {
		return "", &refusal{"Empty path", "Name a file, relative to the folder of this file."}
	}
	full := filepath.Clean(path)
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, full)
	}
	content, known := o.files[full]
	if !known {
		o.names = append(o.names, full)
		var err error
		content, err = readBounded(full, maxFile)
		o.files[full], o.errors[full] = content, err
	}
	if err := o.errors[full]; err != nil {
		return "", &refusal{fmt.Sprintf("Unreadable file%s", shown), fileAdvice(err)}
	}
	if !utf8.Valid(content) {
		return "", &refusal{fmt.Sprintf("File%s is not text", shown), "Its content must be valid UTF-8."}
	}
	text := strings.TrimSuffix(string(content), "\n")
	return o.spend(strings.TrimSuffix(text, "\r"))
}

// spend bounds what repeated calls can pile up in memory.
func (o *outside) spend(text string) (string, error) {
	if o.spent += len(text); o.spent > maxOutside {
		return "", &refusal{"Too much from env and file", "All calls of env and file together may bring 4 MiB."}
	}
	o.learn(text)
	return text, nil
}

// fileAdvice is the next step for an unreadable file. It leaves the path out: the caller knows whether it may be said.
func fileAdvice(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "There is no such file. A relative path starts in the folder of the file that names it."
	case errors.Is(err, fs.ErrPermission):
		return "The gateway's user may not read it. Change its owner or its mode."
	case errors.Is(err, errNotRegular):
		return "It is a folder, a device or a pipe. Name a regular file."
	case errors.Is(err, errTooLarge):
		return "It is larger than 64 KiB. A file holds one value, such as a key."
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return fmt.Sprintf("Reading it failed: %v.", err)
}
