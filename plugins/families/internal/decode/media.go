package decode

import (
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// mediaDepth bounds how many objects deep media is looked for, and with it the work on a hostile body. The
// deepest content that any family reads (a part in a tool result in a message) is three; what lies deeper
// than this is nowhere that a reader looks.
const mediaDepth = 8

// HasMedia reports whether there is an image or audio part anywhere in these places of a request: messages, input
// items, a system prompt, whatever a family has that carries content (MEDIA-01 to MEDIA-10, GAP-27, GAP-120). It looks
// through the raw text, before any of it has been checked: through arrays, and in objects through what can hold
// content, what hosted calls gave back included. What a tool was called with and how it was declared is not content,
// and may hold anything.
func HasMedia(places ...jsonview.View) bool {
	for _, content := range places {
		if hasMedia(content, mediaDepth) {
			return true
		}
	}
	return false
}

// VariablesHaveMedia is HasMedia for the values of a prompt template's variables, each of which may be a part.
func VariablesHaveMedia(prompt jsonview.View) bool {
	for _, value := range prompt.Get("variables").Members() {
		if HasMedia(value) {
			return true
		}
	}
	return false
}

func hasMedia(v jsonview.View, depth int) bool {
	switch v.Kind() {
	case jsonview.Array:
		for _, e := range v.Elems() {
			if e.Kind() == jsonview.Object && objectHasMedia(e, depth) {
				return true
			}
		}
	case jsonview.Object:
		return objectHasMedia(v, depth)
	}
	return false
}

func objectHasMedia(v jsonview.View, depth int) bool {
	if depth == 0 {
		return false
	}
	var c Content
	for name, member := range v.Members() {
		c.Member(name, member)
	}
	return c.hasMedia(v, depth)
}

// Content gathers what of an object can be or hold media, for those who walk its members anyway: HasMedia of the
// object is theirs then. The zero value is ready to use.
type Content struct {
	kind, content, output, outputs, source, images jsonview.View
	spoken                                         bool
}

// Member takes a member of the object.
func (c *Content) Member(name string, member jsonview.View) {
	switch name {
	case "type":
		c.kind = member
	case "content":
		c.content = member
	case "output":
		c.output = member
	case "outputs": // of a code interpreter
		c.outputs = member
	case "images": // of an answer that came with them
		c.images = member
	case "source":
		c.source = member
	case "audio":
		c.spoken = c.spoken || member.Kind() == jsonview.Object
	}
}

// HasMedia reports whether there is media in the object, which stands where HasMedia looks first.
func (c *Content) HasMedia(object jsonview.View) bool { return c.hasMedia(object, mediaDepth) }

func (c *Content) hasMedia(v jsonview.View, depth int) bool {
	// An assistant's earlier spoken answer, by reference, is a member of the message. This is judged after the
	// walk: a look at the whole object for each of a million such members would take days.
	if c.spoken && !c.kind.Set() {
		return true
	}
	switch t, _ := c.kind.Str(); t {
	case "image_url", "input_image", "image", "input_audio", "audio", "output_audio", "computer_screenshot",
		"image_generation_call":
		return true
	case "file", "input_file", "document":
		if fileIsMedia(v) || fileIsMedia(v.Get("file")) || fileIsMedia(c.source) {
			return true
		}
	}
	for _, inner := range [...]*jsonview.View{&c.content, &c.output, &c.outputs, &c.source, &c.images} {
		if hasMedia(*inner, depth-1) {
			return true
		}
	}
	return false
}

// fileIsMedia reports whether what describes a file says that it is an image or sound, by its media type or
// in a data URL.
func fileIsMedia(v jsonview.View) bool {
	for name, member := range v.Members() {
		var prefix string
		switch name {
		case "media_type", "mime_type":
		case "file_data", "file_url", "data", "url":
			prefix = "data:"
		default:
			continue
		}
		text, _ := member.Str()
		text = strings.ToLower(text[:min(len(text), len("data:audio/"))])
		if strings.HasPrefix(text, prefix+"image/") || strings.HasPrefix(text, prefix+"audio/") {
			return true
		}
	}
	return false
}
