package collect

import (
	"fmt"
	"slices"
	"strings"
)

// notesOn says which parts of ads could not be stored unchanged, "" if there are none. things are slots or jobs, key
// is the attribute that names one. stored is how unread values are stored.
func notesOn(ads []ad, attributes []attribute, things, key string, stored func(attribute string) string) string {
	unread, foreign := map[string]int{}, 0
	for i := range ads {
		for _, name := range ads[i].unread {
			unread[name]++
		}
		if ads[i].foreign {
			foreign++
		}
	}
	var parts []string
	for _, name := range names(attributes) {
		if n := unread[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s of %d %s is an expression or of a wrong type: %s", name, n, things,
				stored(name)))
		}
	}
	if foreign > 0 {
		parts = append(parts, fmt.Sprintf("%d %s hold bytes that are not UTF-8: stored as U+FFFD", foreign, things))
	}
	if len(parts) == 0 {
		return ""
	}
	first := slices.IndexFunc(ads, func(a ad) bool { return a.foreign || len(a.unread) > 0 })
	return strings.Join(parts, "; ") + " (first: " + strings.TrimSpace(ads[first].text(key)) + ")"
}

// joined are the notes that are not empty, as one text.
func joined(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}
