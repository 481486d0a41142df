// Command gen generates the Go code of the plugin protocol from provider.proto. It needs no protoc: the
// schema is compiled here and fed to the two code generators, whose versions go.mod pins as tools.
//
// Run it by `go generate ./plugins/internal/proto`.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const source = "provider.proto"

func main() {
	log.SetFlags(0)
	if err := generate(context.Background()); err != nil {
		log.Fatalf("generating from %s: %v", source, err)
	}
}

func generate(ctx context.Context) error {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		// Comments of the schema become comments of the code.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, source)
	if err != nil {
		return fmt.Errorf("compiling: %w", err)
	}
	descriptor := protodesc.ToFileDescriptorProto(files[0])
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(ctx, tool, descriptor); err != nil {
			return fmt.Errorf("running %s: %w", tool, err)
		}
	}
	return nil
}

// run feeds the schema to a code generator, by the protocol that protoc uses, and writes what it answers.
func run(ctx context.Context, tool string, descriptor *descriptorpb.FileDescriptorProto) error {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{descriptor},
	})
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Stdin = bytes.NewReader(request)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, file := range response.File {
		if err := os.WriteFile(file.GetName(), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
