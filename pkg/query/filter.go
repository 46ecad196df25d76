package query

import (
	"fmt"
	"iter"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

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
	Schedds           Texts
	GPUs, GPUMemory   Texts // of classes: GPUClasses, MemoryClasses
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
	}{{"devices", f.Devices, &s.Devices}, {"machines", f.Machines, &s.Machines}, {"projects", f.Projects, &s.Projects}, {"users", f.Users, &s.Users}, {"schedds", f.Schedds, &s.Schedds}, {"gpus", f.GPUs, &s.GPUs}, {"gpuMemory", f.GPUMemory, &s.GPUMemory}} {
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
// everything pass. It is safe for concurrent use.
type Texts struct {
	values   []string // as asked
	exact    map[string]bool
	patterns []*regexp.Regexp
	known    *sync.Map // whether a pattern matches a text
}

// Bounds of one list of a filter.
const (
	maxValues       = 10_000
	maxPattern      = 1000 // bytes of a pattern
	maxInstructions = 5000 // of all its patterns' programs: matching a text takes at most so many steps a character
)

func isPattern(text string) bool {
	return len(text) >= 2 && text[0] == '/' && text[len(text)-1] == '/'
}

func newTexts(name string, values []string) (Texts, error) {
	t := Texts{values: values, exact: map[string]bool{}, known: &sync.Map{}}
	if len(values) > maxValues {
		return t, pool.BadQuery("filter.%s: %d values are more than %d: use a /pattern/, or none for all", name, len(values), maxValues)
	}
	instructions := 0
	for _, v := range values {
		if !isPattern(v) {
			t.exact[v] = true
			continue
		}
		pattern, size, err := compilePattern(v[1 : len(v)-1])
		if err != nil {
			return t, pool.BadQuery("filter.%s: the pattern %s cannot be used: %w (RE2 syntax, such as /\\bH200\\b/)", name, shortened(v), err)
		}
		if instructions += size; instructions > maxInstructions {
			return t, pool.BadQuery("filter.%s: the patterns are too costly: use fewer or simpler ones, without large repetitions", name)
		}
		t.patterns = append(t.patterns, pattern)
	}
	return t, nil
}

// compilePattern also returns the number of instructions of the pattern's program.
func compilePattern(text string) (pattern *regexp.Regexp, instructions int, err error) {
	if len(text) > maxPattern {
		return nil, 0, fmt.Errorf("it has %d bytes, more than %d", len(text), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, err
	}
	pattern, err = regexp.Compile(text)
	return pattern, len(program.Inst), err
}

// shortened is the beginning of a text that is too long for a message.
func shortened(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// All tells whether the filter lets everything pass.
func (t *Texts) All() bool { return len(t.values) == 0 }

// Match tells whether the filter lets a text pass.
func (t *Texts) Match(text string) bool {
	if t.All() || t.exact[text] {
		return true
	}
	if len(t.patterns) == 0 {
		return false
	}
	if matches, known := t.known.Load(text); known {
		return matches.(bool)
	}
	matches := slices.ContainsFunc(t.patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
	t.known.Store(text, matches)
	return matches
}

// Unmatched returns the filter's values that match none of the texts.
func (t *Texts) Unmatched(texts iter.Seq[string]) []string {
	if t.All() {
		return nil
	}
	found := map[string]bool{} // values that match a text
	left := slices.Clone(t.patterns)
	for text := range texts {
		if t.exact[text] {
			found[text] = true
		}
		left = slices.DeleteFunc(left, func(p *regexp.Regexp) bool {
			matches := p.MatchString(text)
			if matches {
				found["/"+p.String()+"/"] = true
			}
			return matches
		})
	}
	return slices.DeleteFunc(slices.Clone(t.values), func(v string) bool { return found[v] })
}
