package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// mostLog is how much of a log is read, from its end, in bytes.
const mostLog = 8 << 20

// collectLog adds the last lines of the log files, and those about the request.
func (c *collection) collectLog() {
	logs, err := c.logFiles()
	if err == nil && len(logs) == 0 {
		err = errors.New("no log file is known: where the gateway logs to the journal, look at `journalctl -u fareway " +
			"--since -1h` yourself, and add what is about this")
	}
	if err != nil {
		c.bundle.Miss("log", err)
		return
	}
	for i, path := range logs {
		content, err := readEnd(path, mostLog)
		if err != nil {
			c.bundle.Miss("log "+filepath.Base(path), err)
			continue
		}
		name := fmt.Sprintf("log/%s.jsonl", filepath.Base(path))
		if i > 0 {
			name = fmt.Sprintf("log/%d-%s.jsonl", i, filepath.Base(path))
		}
		c.bundle.AddLines(name, "the last lines of the log", lastLines(content, c.logLines))
		if c.request == "" {
			continue
		}
		about := slices.DeleteFunc(lastLines(content, mostLog), func(line []byte) bool {
			return !bytes.Contains(line, []byte(c.request))
		})
		c.bundle.AddLines(fmt.Sprintf("request/log-%d.jsonl", i), "lines of the log about the request", about)
	}
}

// logFiles are the files that the gateway logs to, by its Caddyfile, or else the usual one.
func (c *collection) logFiles() ([]string, error) {
	usual := filepath.Join(c.data, "fareway.log")
	found := map[string]bool{}
	if isThere(usual) {
		found[usual] = true
	}
	file := c.caddyfile()
	if file == "" {
		return slices.Sorted(maps.Keys(found)), nil
	}
	site, err := readSite(file)
	if err != nil {
		if len(found) > 0 {
			return slices.Sorted(maps.Keys(found)), nil
		}
		return nil, fmt.Errorf("finding the log files: %w", err)
	}
	var parts struct {
		Logging struct {
			Logs map[string]struct {
				Writer struct {
					Output   string `json:"output"`
					Filename string `json:"filename"`
				} `json:"writer"`
			} `json:"logs"`
		} `json:"logging"`
	}
	if err := json.Unmarshal(site.json, &parts); err != nil {
		return nil, fmt.Errorf("finding the log files: %w", err)
	}
	for _, log := range parts.Logging.Logs {
		if path := log.Writer.Filename; path != "" {
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			if isThere(path) {
				found[path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// readEnd reads so many bytes of a file from its end, in whole lines.
func readEnd(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading the log: %s is no regular file", path)
	}
	from := max(0, info.Size()-most)
	content, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if from > 0 { // its first line is cut
		if at := bytes.IndexByte(content, '\n'); at >= 0 {
			content = content[at+1:]
		}
	}
	return content, nil
}
