// Package encode is what families that write the same thing share: parts of requests in the client direction,
// and the error body of the server direction. It is for the families' packages only.
package encode

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Refused reports whether the route's upstream refuses that setting ("stop", "temperature"), which is then left
// out.
func Refused(req *llm.Request, setting string) bool { return slices.Contains(req.Unsupported, setting) }

// AppendTemperature appends the member `temperature` with a comma before it.
func AppendTemperature(b []byte, t float64) ([]byte, error) {
	if math.IsNaN(t) || math.IsInf(t, 0) {
		return nil, fmt.Errorf("encoding temperature: %v is not a number in JSON", t)
	}
	b = append(b, `,"temperature":`...)
	return strconv.AppendFloat(b, t, 'g', -1, 64), nil
}

// AppendStrings appends an array of strings, of which there is at least one.
func AppendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for _, s := range list {
		b = append(jsonview.AppendString(b, s), ',')
	}
	b[len(b)-1] = ']'
	return b
}

// Arguments is the JSON text of a call's arguments; none are {} (GAP-84), and blanks say no more than none.
func Arguments(call *llm.ToolCall) string {
	if strings.TrimSpace(call.Arguments) == "" {
		return "{}"
	}
	return call.Arguments
}

// AppendSchemaFormat appends the members that describe a format of kind llm.FormatJSONSchema: name, description,
// schema and strict.
func AppendSchemaFormat(b []byte, f *llm.Format) []byte {
	b = append(b, `"name":`...)
	b = jsonview.AppendString(b, f.Name)
	if f.Description != "" {
		b = append(b, `,"description":`...)
		b = jsonview.AppendString(b, f.Description)
	}
	b = append(b, `,"schema":`...)
	b = append(b, f.Schema...)
	if f.Strict != nil {
		b = append(b, `,"strict":`...)
		b = strconv.AppendBool(b, *f.Strict)
	}
	return b
}

// AppendError appends {"error":{"code","message","type"}}, with param for an unknown model: the error body of the
// families whose errors have a code (ERR-01 to ERR-07).
func AppendError(b []byte, e *families.Error) []byte {
	b = append(b, `{"error":{"code":`...)
	b = jsonview.AppendString(b, string(e.Code))
	b = append(b, `,"message":`...)
	b = jsonview.AppendString(b, e.Message)
	b = append(b, `,"type":`...)
	b = jsonview.AppendString(b, string(e.Type()))
	if e.Code == families.ModelNotFound {
		b = append(b, `,"param":"model"`...)
	}
	return append(b, "}}"...)
}

// UnknownRole is the error for a message whose role the canonical model does not have.
func UnknownRole(role llm.Role) error { return fmt.Errorf("unknown role %q", role) }

// UnknownChoice is the error for a tool choice whose mode the canonical model does not have.
func UnknownChoice(mode llm.ToolMode) error {
	return fmt.Errorf("encoding tool choice: unknown mode %q", mode)
}
