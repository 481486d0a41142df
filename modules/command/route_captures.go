package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/fareway/fareway/modules/admin"
	talks "github.com/fareway/fareway/modules/internal/routing/replay"
	"github.com/fareway/fareway/modules/routelab/learn"
	"github.com/fareway/fareway/plugins/families"
	estimator "github.com/fareway/fareway/plugins/tokens"
)

// captured is a line of a file of captured requests. There may be more in it.
type captured struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// readCaptures reads all *.jsonl.gz and *.jsonl files of a folder, in the order of their names: each line a request
// with its path and body. What asks for no reply is passed over, and so is what the gateway would refuse.
func readCaptures(dir string) (list []talks.Capture, err error) {
	err = learn.EachFile(dir, func(file string, r io.Reader) error {
		some, err := readCaptureFile(file, r)
		if err != nil {
			return fmt.Errorf("reading captured requests in %s: %w", file, err)
		}
		list = append(list, some...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s holds no captured request that the gateway would take: name a folder of *.jsonl.gz "+
			"or *.jsonl files whose lines have `path` and `body`", dir)
	}
	return list, nil
}

func readCaptureFile(file string, r io.Reader) (list []talks.Capture, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxBody)
	for at := 1; lines.Scan(); at++ {
		var c captured
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("decoding line %d: %w", at, err)
		}
		codec := generates(c.Path)
		if codec == nil {
			continue
		}
		doc, refusal := families.Parse(c.Body)
		if refusal != nil {
			continue
		}
		if decoded, refusal := codec.Decode(doc, families.Rules{StructuredOutput: true}); refusal == nil {
			list = append(list, talks.Capture{Client: file + " " + codec.Name(), Request: decoded.LLM,
				Tokens: estimator.Estimate(decoded.LLM)})
		}
	}
	return list, lines.Err()
}

// generates is the family at whose path replies are made, nil for none.
func generates(path string) families.Server {
	for _, codec := range admin.Codecs {
		for _, e := range codec.Endpoints() {
			if e.Path == path && e.Kind == families.Generate {
				return codec
			}
		}
	}
	return nil
}
