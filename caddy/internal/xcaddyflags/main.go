// Command xcaddyflags prints the arguments of `xcaddy build` that make the build that xcaddy.json describes,
// one a line, because xcaddy's command reads no files. It is for the Makefile, which runs it in the
// repository's root.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// builder is the part of xcaddy's Builder that we use, under its JSON names.
type builder struct {
	CaddyVersion string        `json:"caddy_version"`
	Plugins      []dependency  `json:"plugins"`
	Replacements []replacement `json:"replacements"`
}

// dependency is a package that the build imports. Version is empty for one that is replaced.
type dependency struct {
	ModulePath string `json:"module_path"`
	Version    string `json:"version,omitempty"`
}

// replacement is a replace directive; xcaddy's command makes a relative New absolute.
type replacement struct {
	Old string `json:"old"`
	New string `json:"new"`
}

func main() {
	if err := run("xcaddy.json", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "xcaddyflags:", err)
		os.Exit(1)
	}
}

func run(path string, w io.Writer) error {
	b, err := load(path)
	if err != nil {
		return err
	}
	for _, arg := range b.args() {
		if _, err := fmt.Fprintln(w, arg); err != nil {
			return fmt.Errorf("printing arguments: %w", err)
		}
	}
	return nil
}

// load reads a file, which must hold nothing that a build would not be made of.
func load(path string) (builder, error) {
	f, err := os.Open(path)
	if err != nil {
		return builder{}, fmt.Errorf("opening the build's description: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var b builder
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return builder{}, fmt.Errorf("reading %s as xcaddy's builder: %w", path, err)
	}
	return b, nil
}

func (b builder) args() []string {
	args := []string{b.CaddyVersion}
	for _, p := range b.Plugins {
		with := p.ModulePath
		if p.Version != "" {
			with += "@" + p.Version
		}
		args = append(args, "--with", with)
	}
	for _, r := range b.Replacements {
		args = append(args, "--replace", r.Old+"="+r.New)
	}
	return args
}
