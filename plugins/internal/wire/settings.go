package wire

import (
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// SchemaToProto translates a schema of settings.
func SchemaToProto(s settings.Schema) *proto.Schema {
	out := &proto.Schema{}
	for _, a := range s.Attributes {
		out.Attributes = append(out.Attributes, &proto.Attribute{
			Name: a.Name, Type: string(a.Type), Required: a.Required, Secret: a.Secret, Doc: a.Doc,
			OneOf: a.OneOf, Duration: a.Duration,
		})
	}
	for _, b := range s.Blocks {
		out.Blocks = append(out.Blocks, &proto.Block{
			Name: b.Name, Many: b.Many, Doc: b.Doc, Schema: SchemaToProto(b.Schema),
		})
	}
	return out
}

// SchemaFromProto translates a schema back.
func SchemaFromProto(s *proto.Schema) settings.Schema {
	var out settings.Schema
	for _, a := range s.GetAttributes() {
		out.Attributes = append(out.Attributes, settings.Attribute{
			Name: a.GetName(), Type: settings.Type(a.GetType()),
			Required: a.GetRequired(), Secret: a.GetSecret(), Doc: Clip(a.GetDoc()),
			OneOf: a.GetOneOf(), Duration: a.GetDuration(),
		})
	}
	for _, b := range s.GetBlocks() {
		out.Blocks = append(out.Blocks, settings.Block{
			Name: b.GetName(), Many: b.GetMany(), Doc: Clip(b.GetDoc()), Schema: SchemaFromProto(b.GetSchema()),
		})
	}
	return out
}
