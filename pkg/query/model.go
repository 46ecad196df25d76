// Package query is the query model: the description of a query type (Kind), the form of a query (Model), and its
// meaning in one request (Plan). It does not depend on any particular kind.
package query

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// Version of the query model. A query without a version was written by hand for the current one.
const Version = 1

// Model is a query as it is stored in dashboards and alert rules. Fields that Grafana adds are ignored.
type Model struct {
	RefID               string    `json:"refId,omitempty"`
	QueryType           string    `json:"queryType"`
	View                string    `json:"view,omitempty"`
	GroupBy             []string  `json:"groupBy,omitzero"`  // nil: the kind's default; empty: none
	Metrics             []string  `json:"metrics,omitempty"` // empty: all in tables, the first in series
	Filter              Filter    `json:"filter"`
	Bucket              string    `json:"bucket,omitempty"`   // "" = auto
	Timezone            string    `json:"timezone,omitempty"` // "" = the data source's
	CompleteBucketsOnly bool      `json:"completeBucketsOnly,omitempty"`
	IncludeOldDevices   *bool     `json:"includeOldDevices,omitempty"` // nil = true
	Totals              *bool     `json:"totals,omitempty"`            // nil = unless exactly one metric is named
	Previous            bool      `json:"previous,omitempty"`          // asks for the period of the same length before
	Last                string    `json:"last,omitempty"`              // such as 2d: up to now instead of the time range
	Duration            string    `json:"duration,omitempty"`
	JobHours            []float64 `json:"jobHours,omitempty"`        // lengths of jobs; empty: the view's own
	ShortMinutes        *float64  `json:"shortMinutes,omitempty"`    // within which a run fails at once; nil = 10
	WithinMinutes       *float64  `json:"withinMinutes,omitempty"`   // for withinPercent; nil = 10
	OverheadMinutes     *float64  `json:"overheadMinutes,omitempty"` // what a checkpoint takes; nil = 5
	Legend              string    `json:"legend,omitempty"`          // a template of series' names; "" = the answer's own
	Limit               int       `json:"limit,omitempty"`           // 0 = the view's own
	Version             int       `json:"version,omitempty"`
}

// Filter chooses GPUs and results, by the values of [Groupings]. An empty list is all. An entry that begins with "!"
// excludes the value after it; a value that begins so is written with a backslash before it.
type Filter struct {
	Categories []string `json:"categories,omitempty"`
	Slots      []string `json:"slots,omitempty"`
	Devices    []string `json:"devices,omitempty"`
	Machines   []string `json:"machines,omitempty"`
	Ownerships []string `json:"ownerships,omitempty"`
	Projects   []string `json:"projects,omitempty"`
	Users      []string `json:"users,omitempty"`
	Memories   []string `json:"memories,omitempty"`
	TakenOver  []string `json:"takenOverBy,omitempty"`
	Tiers      []string `json:"tiers,omitempty"`
	Schedds    []string `json:"schedds,omitempty"`
	GPUs       []string `json:"gpus,omitempty"`
	GPUMemory  []string `json:"gpuMemory,omitempty"`
	Reasons    []string `json:"reasons,omitempty"`

	JobProjects []string `json:"jobProjects,omitempty"`
	OwnGPUs     []string `json:"ownGpus,omitempty"`
	UsedMemory  []string `json:"usedMemory,omitempty"`

	Pools []string `json:"pools,omitempty"` // asks for many pools: see pkg/fleet
	Idle  bool     `json:"idle,omitempty"`  // allocation/machines: nothing claimed on primary slots
}

func (f *Filter) lists(use func(g Grouping, name string, values *[]string) error) error {
	for g := range Groupings {
		if list := Groupings[g].list; list != nil {
			if err := use(Grouping(g), Groupings[g].Filter.Name, list(f)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ParseFilter reads a filter. Unknown fields are an error; empty values are dropped. Errors are pool.BadQuery.
func ParseFilter(raw json.RawMessage) (Filter, error) {
	var f Filter
	if text := bytes.TrimSpace(raw); len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return f, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		var names []string
		for g := range Groupings {
			if name := Groupings[g].Filter.Name; name != "" {
				names = append(names, name)
			}
		}
		return f, pool.BadQuery("filter: %w; valid: the lists %s, and idle (true or false)", err, strings.Join(names, ", "))
	}
	return f, f.lists(func(_ Grouping, name string, values *[]string) error {
		*values = slices.DeleteFunc(*values, func(v string) bool { return strings.TrimSpace(v) == "" })
		return noVariable("filter."+name, *values...)
	})
}

// Parse reads a query. Catalog.Plan decides whether it can be answered. Errors are pool.BadQuery.
func Parse(raw json.RawMessage) (Model, error) {
	var m Model
	var outer struct {
		*Model
		Filter json.RawMessage `json:"filter"`
	}
	outer.Model = &m
	if err := json.Unmarshal(raw, &outer); err != nil {
		return m, pool.BadQuery("the query cannot be read: %w", err)
	}
	if m.Version < 0 || m.Version > Version {
		return m, pool.BadQuery("the query has version %d; this plugin supports versions up to %d: update the plugin",
			m.Version, Version)
	}
	m.Version = Version
	near := NearKeys(raw, reflect.TypeFor[Model]())
	for _, key := range slices.Sorted(maps.Keys(near)) { // left out, they would change the answer in silence
		return m, pool.BadQuery("the query has the unknown key %q: did you mean %q?", key, near[key])
	}
	var err error
	m.Filter, err = ParseFilter(outer.Filter)
	return m, cmp.Or(err, noVariable("queryType", m.QueryType), noVariable("view", m.View),
		noVariable("bucket", m.Bucket), noVariable("timezone", m.Timezone), noVariable("duration", m.Duration),
		noVariable("last", m.Last), noVariable("legend", m.Legend), noVariable("groupBy", m.GroupBy...),
		noVariable("metrics", m.Metrics...))
}

var (
	dollarVariable  = regexp.MustCompile(`\$\w+|\$\{\w[^}]*\}`)
	bracketVariable = regexp.MustCompile(`\[\[\w[^\]]*\]\]`)
)

// noVariable refuses a dashboard variable that was left in one of the texts.
func noVariable(where string, texts ...string) error {
	for _, text := range texts {
		found := dollarVariable.FindString(text)
		if found == "" && !isPattern(strings.TrimPrefix(text, exclusion)) {
			found = bracketVariable.FindString(text)
		}
		if found != "" {
			return pool.BadQuery("%s: the variable %s has no value here: write the value itself (alert rules do not "+
				"support dashboard variables)", where, found)
		}
	}
	return nil
}

// one checks that a word is among those that are possible.
func one(what, word string, possible []string) error {
	if slices.Contains(possible, word) {
		return nil
	}
	if len(possible) == 0 {
		return pool.BadQuery("%s %q is not supported here: there is no choice", what, word)
	}
	return pool.BadQuery("unknown %s %q; valid values: %s", what, word, strings.Join(possible, ", "))
}

// several checks a list of words, none of them twice.
func several(what string, words, possible []string) error {
	for i, w := range words {
		if err := one(what, w, possible); err != nil {
			return err
		}
		if slices.Contains(words[:i], w) {
			return pool.BadQuery("%s %q is named twice", what, w)
		}
	}
	return nil
}

// singular is a word without the end of a plural.
func singular(word string) string {
	if stem, plural := strings.CutSuffix(word, "ies"); plural {
		return stem + "y"
	}
	return strings.TrimSuffix(word, "s")
}

// NearKeys returns the keys of a JSON object that are nearly keys of a struct, with those, because of underscores, a
// singular or plural, or a slip: at most two letters off, one for keys of up to five letters. Keys that differ in case
// only are read, and other unknown keys are Grafana's business.
func NearKeys(object json.RawMessage, of reflect.Type) map[string]string {
	var given map[string]json.RawMessage
	if json.Unmarshal(object, &given) != nil {
		return nil // the reader of the object says why
	}
	// List the keys of the struct.
	var known []string
	for _, field := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			known = append(known, name)
		}
	}
	// Compare the others with them.
	near := map[string]string{}
	for key := range given {
		if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, key) }) {
			continue
		}
		plain := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key))
		i := slices.IndexFunc(known, func(k string) bool {
			lower, most := strings.ToLower(k), 2
			if len(k) <= 5 {
				most = 1
			}
			return singular(plain) == singular(lower) || pool.LettersOff(plain, lower) <= most
		})
		if i >= 0 {
			near[key] = known[i]
		}
	}
	return near
}
