package pool

import (
	"slices"
	"strings"
)

// IsBlank reports whether a text column says nothing: NULL, empty and blank are the same (methodology section 2).
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }

// Projects returns the members of a PrioritizedProjects value: comma- or space-separated names.
func Projects(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\t' || r == '\n' ||
			r == '\r'
	})
}

// ProjectList returns the members as one value: sorted, joined by commas.
func ProjectList(text string) string {
	projects := Projects(text)
	slices.Sort(projects)
	return strings.Join(projects, ",")
}
