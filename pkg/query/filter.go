package query

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// Selection is a compiled filter. Devices, machines and ownerships choose GPUs before the slice rules; categories, projects
// and users choose among the results after them.
type Selection struct {
	Devices, Machines Texts
	Ownerships        [pool.Ownerships]bool
	Categories        [pool.Categories]bool // those of both filters, categories and slots
	Projects          Texts                 // of members: see MatchProjects
	Users             Texts
	Idle              bool
	OldDevices        bool // include them
}

// AllCategories tells whether no category is left out.
func (s *Selection) AllCategories() bool { return !slices.Contains(s.Categories[:], false) }

// AllOwnerships tells whether no ownership is left out.
func (s *Selection) AllOwnerships() bool { return !slices.Contains(s.Ownerships[:], false) }

// MatchDevice tells whether GPUs with the device's name count; "" is a device without a name.
func (s *Selection) MatchDevice(device string) bool {
	return (s.OldDevices || !pool.IsOldDevice(device)) && s.Devices.Match(Shown("device", device))
}

// MatchProjects tells whether a list of projects, joined by commas, counts: one of its members matches, or the whole list.
func (s *Selection) MatchProjects(projects string) bool {
	return s.Projects.All() || s.Projects.Match(projects) || slices.ContainsFunc(pool.Projects(projects), s.Projects.Match)
}

// compile turns a filter's texts into a Selection. Errors are pool.BadQuery.
func (f *Filter) compile(includeOldDevices bool) (Selection, error) {
	s := Selection{Idle: f.Idle, OldDevices: includeOldDevices}
	var err error
	for _, t := range []struct {
		name   string
		values []string
		into   *Texts
	}{{"devices", f.Devices, &s.Devices}, {"machines", f.Machines, &s.Machines}, {"projects", f.Projects, &s.Projects}, {"users", f.Users, &s.Users}} {
		if *t.into, err = newTexts(t.name, t.values); err != nil {
			return s, err
		}
	}
	for o := range s.Ownerships {
		s.Ownerships[o] = len(f.Ownerships) == 0
	}
	for _, text := range f.Ownerships {
		o, ok := pool.ParseOwnership(text)
		if !ok {
			return s, pool.BadQuery("filter.ownerships: %q is unknown: possible are %s", text, strings.Join(OwnershipNames(), ", "))
		}
		s.Ownerships[o] = true
	}
	var chosen [pool.Categories]bool
	for _, text := range f.Categories {
		c, ok := pool.ParseCategory(text)
		if !ok {
			return s, pool.BadQuery("filter.categories: %q is unknown: possible are %s", text, strings.Join(categoryWords(), ", "))
		}
		chosen[c] = true
	}
	for _, text := range f.Slots {
		if text != pool.Primary.String() && text != pool.Backfill.String() {
			return s, pool.BadQuery("filter.slots: %q is unknown: possible are %s, %s", text, pool.Primary, pool.Backfill)
		}
	}
	for c := range s.Categories {
		s.Categories[c] = (len(f.Categories) == 0 || chosen[c]) && (len(f.Slots) == 0 || slices.Contains(f.Slots, pool.Category(c).Side().String()))
	}
	return s, nil
}

func categoryWords() (words []string) {
	for c := range pool.Category(pool.Categories) {
		words = append(words, c.Key()+" ("+c.String()+")")
	}
	return words
}

// OwnershipNames are the ownerships in their order.
func OwnershipNames() (names []string) {
	for o := range pool.Ownership(pool.Ownerships) {
		names = append(names, o.String())
	}
	return names
}

// Texts is a filter over texts: exact values, case-sensitive, and /RE2 patterns/ that match anywhere. The zero value lets
// everything pass.
type Texts struct{ entries []entry }

type entry struct {
	text    string
	pattern *regexp.Regexp // nil: exact
}

func (e entry) match(text string) bool {
	if e.pattern != nil {
		return e.pattern.MatchString(text)
	}
	return e.text == text
}

func isPattern(text string) bool {
	return len(text) >= 2 && text[0] == '/' && text[len(text)-1] == '/'
}

func newTexts(name string, values []string) (Texts, error) {
	var t Texts
	for _, v := range values {
		e := entry{text: v}
		if isPattern(v) {
			pattern, err := regexp.Compile(v[1 : len(v)-1])
			if err != nil {
				return t, pool.BadQuery("filter.%s: the pattern %s cannot be read: %w (RE2 syntax, such as /\\bH200\\b/)", name, v, err)
			}
			e.pattern = pattern
		}
		t.entries = append(t.entries, e)
	}
	return t, nil
}

// All tells whether the filter lets everything pass.
func (t *Texts) All() bool { return len(t.entries) == 0 }

// Match tells whether the filter lets a text pass.
func (t *Texts) Match(text string) bool {
	return t.All() || slices.ContainsFunc(t.entries, func(e entry) bool { return e.match(text) })
}

// Unmatched returns the filter's values that match none of the texts.
func (t *Texts) Unmatched(texts iter.Seq[string]) []string {
	left := slices.Clone(t.entries)
	if len(left) > 0 {
		for text := range texts {
			left = slices.DeleteFunc(left, func(e entry) bool { return e.match(text) })
			if len(left) == 0 {
				break
			}
		}
	}
	var values []string
	for _, e := range left {
		values = append(values, e.text)
	}
	return values
}
