// Package jsonview reads JSON in place: a View is a validated piece of JSON text that is walked on demand,
// without building a tree. (Skeleton; the codecs' author fills it.)
package jsonview

// View is one JSON value.
type View struct {
	raw []byte
}
