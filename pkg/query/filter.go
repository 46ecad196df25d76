package query

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
)

// Selection is a compiled filter.
type Selection struct {
	Idle       bool
	OldDevices bool // include them
	texts      [NumGroupings]Texts
	naming     *Naming
	owners     map[string][]string // names of projects on machines that stand for projects of jobs; nil if not of jobs
}

// Texts returns the list of a grouping.
func (s *Selection) Texts(g Grouping) *Texts { return &s.texts[g] }

// All reports whether each value of a grouping passes.
func (s *Selection) All(g Grouping) bool { return s.texts[g].All() && (g != ByDevice || s.OldDevices) }

// Match reports whether a value of a grouping passes, by the text that is stored of it.
func (s *Selection) Match(g Grouping, stored string) bool {
	if match := Groupings[g].match; match != nil {
		return match(s, stored)
	}
	return s.texts[g].Match(stored)
}

// matchCategory takes a category by its key or its name.
func (s *Selection) matchCategory(stored string) bool {
	c, known := pool.ParseCategory(stored)
	return known && s.texts[ByCategory].Match(c.Key(), c.String())
}

// matchDevice takes the device's name; "" is a device without a name.
func (s *Selection) matchDevice(device string) bool {
	return (s.OldDevices || !pool.IsOldDevice(device)) && s.texts[ByDevice].Match(cmp.Or(device, Unknown))
}

// projectsOf takes a list of projects, joined by commas, if one of its members matches, or the whole list, and neither
// it nor any member is excluded. A project of jobs goes by the names on machines that stand for it, too.
func projectsOf(g Grouping) func(*Selection, string) bool {
	return func(s *Selection, projects string) bool {
		t := &s.texts[g]
		if t.All() {
			return true
		}
		names := pool.Projects(projects)
		for _, project := range names {
			names = append(names, s.owners[project]...)
		}
		return t.Match(append(names, projects)...)
	}
}

// compile turns a filter's texts into a Selection. Errors are pool.BadQuery.
func (f *Filter) compile(includeOldDevices bool) (Selection, error) {
	s := Selection{Idle: f.Idle, OldDevices: includeOldDevices}
	return s, f.lists(func(g Grouping, name string, values *[]string) (err error) {
		words := Groupings[g].Values
		if closed := Groupings[g].closed; closed != nil {
			words = closed
		}
		for _, v := range *values {
			text, _ := entryOf(v)
			possible := words == nil || slices.Contains(words, text)
			if g == ByCategory { // by its key or its name
				_, possible = pool.ParseCategory(text)
			}
			if !possible {
				return pool.BadQuery("filter.%s: unknown value %q; valid values: %s", name, text, strings.Join(words, ", "))
			}
		}
		s.texts[g], err = newTexts(name, *values)
		return err
	})
}

// Texts is a filter over texts: exact values, case-sensitive, and /RE2 patterns/ that match anywhere; entries that
// begin with "!" exclude. A text passes if an entry includes it, or none includes, and none excludes it. The zero value
// lets everything pass. It is safe for concurrent use.
type Texts struct {
	values   []string           // as given
	exact    map[string]verdict // what was found about exact values
	patterns []pattern
	anybody  bool      // no entry includes
	known    *sync.Map // a verdict by text, if there are patterns
}

type pattern struct {
	*regexp.Regexp
	asked string // as written
	verdict
}

type verdict struct{ included, excluded bool }

func (v verdict) and(w verdict) verdict {
	return verdict{v.included || w.included, v.excluded || w.excluded}
}

const exclusion = "!"

// entryOf returns the value of an entry, and whether the entry excludes it. A backslash before the "!" makes it a part
// of the value.
func entryOf(value string) (text string, excludes bool) {
	if rest, ok := strings.CutPrefix(value, exclusion); ok {
		return rest, true
	}
	if rest, ok := strings.CutPrefix(value, `\`); ok && strings.HasPrefix(rest, exclusion) {
		return rest, false
	}
	return value, false
}

// Bounds of one list of a filter.
const (
	maxValues       = 10_000
	maxPattern      = 1000 // bytes of a pattern
	maxInstructions = 5000 // all its patterns' programs together: matching takes at most this many steps per character
)

func isPattern(text string) bool {
	return len(text) >= 2 && text[0] == '/' && text[len(text)-1] == '/'
}

func newTexts(name string, values []string) (Texts, error) {
	t := Texts{values: values, exact: map[string]verdict{}, anybody: true, known: &sync.Map{}}
	if len(values) > maxValues {
		return t, pool.BadQuery("filter.%s: %d values are more than %d: use a /pattern/, or none for all", name, len(values),
			maxValues)
	}
	instructions := 0
	for _, v := range values {
		text, excludes := entryOf(v)
		said := verdict{!excludes, excludes}
		t.anybody = t.anybody && excludes
		if strings.TrimSpace(text) == "" {
			return t, pool.BadQuery("filter.%s: %q excludes nothing: write a value or a /pattern/ after the exclamation mark",
				name, v)
		}
		if !isPattern(text) {
			t.exact[text] = said.and(t.exact[text])
			continue
		}
		compiled, size, err := compilePattern(text[1 : len(text)-1])
		if err != nil {
			return t, pool.BadQuery("filter.%s: the pattern %s cannot be used: %w (RE2 syntax, such as /\\bH200\\b/)", name,
				shortened(v), err)
		}
		if instructions += size; instructions > maxInstructions {
			return t, pool.BadQuery("filter.%s: the patterns are too costly: use fewer or simpler ones, without large "+
				"repetitions", name)
		}
		t.patterns = append(t.patterns, pattern{compiled, v, said})
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

// All reports whether the filter lets everything pass.
func (t *Texts) All() bool { return len(t.values) == 0 }

// Match reports whether the filter lets a thing with several texts pass: one is included, and none excluded.
func (t *Texts) Match(texts ...string) bool {
	included := t.All() || t.anybody
	for _, text := range texts {
		v := t.verdict(text)
		if v.excluded {
			return false
		}
		included = included || v.included
	}
	return included
}

func (t *Texts) verdict(text string) verdict {
	v := t.exact[text]
	if len(t.patterns) == 0 {
		return v
	}
	if known, ok := t.known.Load(text); ok {
		return known.(verdict)
	}
	for i := range t.patterns {
		if p := &t.patterns[i]; p.MatchString(text) {
			v = v.and(p.verdict)
		}
	}
	t.known.Store(text, v)
	return v
}

// Unmatched returns the filter's entries, as written, that match none of the texts.
func (t *Texts) Unmatched(texts []string) []string {
	found := map[string]bool{} // exact values, and patterns as written
	for _, text := range texts {
		if _, named := t.exact[text]; named {
			found[text] = true
		}
		for i := range t.patterns {
			if p := &t.patterns[i]; !found[p.asked] && p.MatchString(text) {
				found[p.asked] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(t.values), func(v string) bool {
		text, _ := entryOf(v)
		return found[v] || found[text]
	})
}

// NameKind is the kind of names in a column of texts that not everyone may see.
type NameKind uint8

// The kinds of names in columns.
const (
	Anything NameKind = iota
	Users             // users of the pool: RemoteOwner, or the owner of a job
	Jobs              // GlobalJobId
)

// Naming is how the user of a query sees users and jobs, and which names of users a filter accepts. The zero value uses
// the stored names.
type Naming struct {
	Key       string                       // differs if filters choose other users; part of cache keys
	User, Job func(stored string) string   // how answers call them; nil: as they are stored
	Taken     func(stored string) []string // a user's names in filters; nil: the stored one
}

// Shown is a stored text of a column as tables, labels and filters show it: a missing device or user is Unknown,
// missing projects are "", and users and jobs have the names that the user of the query may see.
func (p *Plan) Shown(column, stored string) string {
	naming := &p.Env.Naming
	switch names := p.names[column]; {
	case column == "device", names == Users && stored == "":
		return cmp.Or(stored, Unknown)
	case names == Users && naming.User != nil:
		return naming.User(stored)
	case names == Jobs && stored != "" && naming.Job != nil:
		return naming.Job(stored)
	}
	return stored
}

// matchUser reports whether the filter lets a user pass, by any of the names that it may call them; "" is unknown. A
// user without a domain, as queues name the owners of jobs, passes if the filter has them with any domain, except for
// those who must not find users by their names.
func (s *Selection) matchUser(stored string) bool {
	users := &s.texts[ByUser]
	if users.All() {
		return true
	}
	names := s.NamesOfUser(stored)
	if slices.Contains(names, stored) && !strings.Contains(stored, "@") {
		names = slices.Clone(names)
		for text := range users.exact {
			if strings.HasPrefix(text, stored+"@") {
				names = append(names, text)
			}
		}
	}
	return users.Match(names...)
}

// matchTakenOver takes the user who took over a run's GPUs, by any of the names that the filter may call them.
func (s *Selection) matchTakenOver(stored string) bool {
	return s.texts[ByTakenOver].Match(s.NamesOfUser(stored)...)
}

// NamesOfUser are the names by which the filter may call a user.
func (s *Selection) NamesOfUser(stored string) []string {
	if s.naming.Taken == nil || stored == "" {
		return []string{cmp.Or(stored, Unknown)}
	}
	return s.naming.Taken(stored)
}
