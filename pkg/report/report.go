// Package report lays the data source's answers out as a report for people: text for mail, HTML as one self-contained
// page. It computes nothing: every figure is a field of an answer's frame.
package report

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
)

// Options define the contents of a report.
type Options struct {
	Title    string         // "" = GPU report
	From, To time.Time      // the window [From, To]
	Sections []string       // keys of sections, in their order; none = all
	Zone     *time.Location // in which times are shown; nil = UTC
	Now      time.Time      // when the report is made
}

// check refuses an impossible window.
func (o Options) check() error {
	if !o.From.Before(o.To) {
		return pool.BadQuery("report: the end of the time range (%s) must be after its start (%s)",
			o.To.Format(time.RFC3339), o.From.Format(time.RFC3339))
	}
	return nil
}

// Report is the answers, ready to be written.
type Report struct {
	Title    string
	Subtitle string // the period
	Headline string // how much was allocated, for the subject of a mail; "" = not known
	Facts    []Fact // coverage, freshness, when it was made
	Notices  []string
	Sections []Section
	Failed   int // queries without an answer; their errors take their places
}

// Fact is a figure about the report as a whole.
type Fact struct{ Name, Value string }

// Section is a heading with its contents.
type Section struct {
	Key, Title string
	About      string // one or two sentences
	Blocks     []Block
}

// Block is a table, a chart, lists or paragraphs, or the error in their place.
type Block struct {
	Caption    string
	Table      *Table
	Chart      *Chart
	Lists      []List
	Paragraphs []string
	Empty      string // said when there is nothing to show
	Error      string
	Notices    []string
}

// List is a headed list of names.
type List struct {
	Title string
	Items []string
}

// Make asks the data source and lays its answers out. Errors: an unknown section, an impossible window, a data source
// that does not answer at all.
func Make(ctx context.Context, source backend.QueryDataHandler, o Options) (*Report, error) {
	chosen, err := choose(o.Sections)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Zone, o.Title = cmp.Or(o.Zone, time.UTC), cmp.Or(o.Title, "GPU report")
	l := layout{options: o, zone: o.Zone}
	answers, err := l.ask(ctx, source, chosen)
	if err != nil {
		return nil, err
	}
	r := &Report{Title: clean(o.Title), Subtitle: l.window()}
	health := answers[healthRef]
	if health.Error != nil {
		r.Failed++
		r.Notices = []string{"Coverage is unknown: " + Sentence(health.Error.Error())}
	} else {
		r.Notices = notices(health.Frames)
	}
	r.Facts, r.Headline = l.facts(health.Frames), headline(answers[headlineRef].Frames)
	for _, s := range chosen {
		section := Section{Key: s.key, Title: s.title, About: s.about}
		told := slices.Clone(r.Notices)
		for i, p := range s.parts {
			block := l.block(p, answers[refID(s, i)])
			if block.Error != "" {
				r.Failed++
			}
			block.Notices = slices.DeleteFunc(block.Notices, func(n string) bool { return slices.Contains(told, n) })
			told = append(told, block.Notices...)
			if n := len(section.Blocks); n > 0 && block.Empty != "" && block.Empty == section.Blocks[n-1].Empty {
				continue // a chart and its table
			}
			section.Blocks = append(section.Blocks, block)
		}
		r.Sections = append(r.Sections, section)
	}
	return r, nil
}

// choose returns the sections with these keys, in the order of the report.
func choose(keys []string) ([]section, error) {
	known := Keys()
	for _, key := range keys {
		if !slices.Contains(known, key) {
			return nil, pool.BadQuery("report: section %q is unknown: use %s", key, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(sections), func(s section) bool {
		return len(keys) > 0 && !slices.Contains(keys, s.key)
	}), nil
}

// Keys are the sections' names, in their order.
func Keys() []string {
	keys := make([]string, len(sections))
	for i, s := range sections {
		keys[i] = s.key
	}
	return keys
}

// Queries of the report as a whole.
const (
	healthRef   = "health"
	headlineRef = "headline"
)

func refID(s section, part int) string { return fmt.Sprintf("%s %d", s.key, part+1) }

// points is how many points a chart has at most, by the choice of its buckets.
const points = 170

// ask sends all queries in one request.
func (l layout) ask(ctx context.Context, source backend.QueryDataHandler, chosen []section) (backend.Responses, error) {
	window := backend.TimeRange{From: l.options.From, To: l.options.To}
	interval := max(window.Duration()/points, time.Second)
	request := &backend.QueryDataRequest{}
	add := func(refID string, q query) error {
		q = maps.Clone(q)
		q["refId"], q["timezone"] = refID, l.options.Zone.String()
		return q.addTo(request, refID, window, interval)
	}
	if err := add(healthRef, query{"queryType": "allocation", "view": "health"}); err != nil {
		return nil, err
	}
	if err := add(headlineRef, query{"queryType": "allocation", "view": "summary", "groupBy": names{"slots"},
		"metrics": names{allocatedPercent}}); err != nil {
		return nil, err
	}
	for _, s := range chosen {
		for i, p := range s.parts {
			if p.query == nil {
				continue
			}
			if err := add(refID(s, i), p.query); err != nil {
				return nil, err
			}
		}
	}
	return answersTo(ctx, source, request)
}

// addTo adds the query to a request.
func (q query) addTo(request *backend.QueryDataRequest, refID string, window backend.TimeRange,
	interval time.Duration) error {
	text, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("writing the query of %s: %w", refID, err)
	}
	kind, _ := q["queryType"].(string)
	request.Queries = append(request.Queries, backend.DataQuery{RefID: refID, QueryType: kind, TimeRange: window,
		JSON: text, MaxDataPoints: points, Interval: interval})
	return nil
}

// answersTo returns the data source's answers to all queries of a request.
func answersTo(ctx context.Context, source backend.QueryDataHandler, request *backend.QueryDataRequest) (
	backend.Responses, error) {
	response, err := source.QueryData(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("the data source did not answer: %w", err)
	}
	for _, q := range request.Queries {
		if _, ok := response.Responses[q.RefID]; !ok {
			return nil, fmt.Errorf("the data source did not answer the query of %s", q.RefID)
		}
	}
	return response.Responses, nil
}

// block lays one part out.
func (l layout) block(p part, answer backend.DataResponse) Block {
	if p.query == nil {
		return Block{Caption: p.caption, Paragraphs: p.paragraphs}
	}
	if answer.Error != nil {
		return Block{Caption: p.caption, Error: Sentence(answer.Error.Error())}
	}
	b := p.lay(l, answer.Frames)
	b.Caption, b.Notices = p.caption, notices(answer.Frames)
	if b.Table == nil && b.Chart == nil && len(b.Lists) == 0 && len(b.Paragraphs) == 0 {
		b.Empty = cmp.Or(p.empty, p.caption+": no data.")
	}
	return b
}

// notices are the notices of an answer.
func notices(frames data.Frames) (texts []string) {
	for _, frame := range frames {
		if frame.Meta == nil {
			continue
		}
		for _, n := range frame.Meta.Notices {
			text := Sentence(n.Text)
			if n.Severity == data.NoticeSeverityWarning || n.Severity == data.NoticeSeverityError {
				text = strings.ToUpper(n.Severity.String()[:1]) + n.Severity.String()[1:] + ": " + text
			}
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

const allocatedPercent = "allocatedPercent"

// headline says how much of the real and of the backfill slots was allocated: "allocated: real 71.3%, backfill 40.2%".
func headline(frames data.Frames) string {
	var parts []string
	for r := range records(frames) {
		if percent := r.number(allocatedPercent); !math.IsNaN(percent) {
			parts = append(parts, fmt.Sprintf("%s %.1f%%", strings.ToLower(r.text("slots")), percent))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "allocated: " + strings.Join(parts, ", ")
}

// coverage are the statistics of an answer that belong to a report; others say how it was made.
var coverage = []string{"Snapshots", "Slices (N)", "Covered hours (D)"}

// facts are the health of the data, the statistics of its answer, and when the report was made.
func (l layout) facts(health data.Frames) []Fact {
	var facts []Fact
	for _, frame := range health {
		for _, field := range frame.Fields {
			if field.Len() > 0 {
				facts = append(facts, Fact{displayName(field), l.value(field, 0, unitOf(field))})
			}
		}
		if frame.Meta != nil {
			for _, s := range frame.Meta.Stats {
				if slices.Contains(coverage, s.DisplayName) {
					facts = append(facts, Fact{s.DisplayName, figure(s.Value, s.Unit, nil)})
				}
			}
		}
	}
	return append(facts, Fact{"Generated", l.time(l.options.Now) + " " + l.zoneName()})
}

var lengths = regexp.MustCompile(`^([1-9]\d{0,4})([hd])$`)

// calendarMonths are the lengths, in months, of windows that are named by the calendar.
var calendarMonths = map[string]int{"month": 1, "quarter": 3, "fiscal-year": 12}

// Last returns the window of a name: 24h, 7d (or any number of hours or days) up to now; or month, quarter or
// fiscal-year, the last of the zone's calendar that is over. Fiscal years, and with them quarters, begin with
// yearStart, a month from 1 to 12.
func Last(name string, now time.Time, zone *time.Location, yearStart int) (from, to time.Time, err error) {
	if months := calendarMonths[name]; months > 0 {
		local := now.In(zone)
		over := (int(local.Month()) - yearStart + 12) % 12 % months // months of the one that is not over
		end := time.Date(local.Year(), local.Month()-time.Month(over), 1, 0, 0, 0, 0, zone)
		return end.AddDate(0, -months, 0), end.Add(-time.Microsecond), nil
	}
	m := lengths.FindStringSubmatch(name)
	if m == nil {
		return from, to, pool.BadQuery("report: %q is not a time range: use a number of hours or days such as 24h or 7d, "+
			"or month, "+
			"quarter or fiscal-year", name)
	}
	n, _ := strconv.Atoi(m[1])
	length := time.Duration(n) * time.Hour
	if m[2] == "d" {
		length *= 24
	}
	return now.Add(-length), now, nil
}
