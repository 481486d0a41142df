package conform

import "slices"

// Known are the names of the restrictions that are mapped here, sorted.
func Known() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range byName {
			if !yield(name) {
				return
			}
		}
		for name := range forms {
			if !yield(name) {
				return
			}
		}
	})
}
