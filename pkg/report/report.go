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

// Make asks the data source and lays its answers out. Errors: an unknown section, an impossible window, no answer at
// all.
func Make(ctx context.Context, source backend.QueryDataHandler, o Options) (*Report, error) {
	chosen, err := choose(o.Sections)
	if err != nil {
		return nil, err
	}
	o.Zone, o.Title = cmp.Or(o.Zone, time.UTC), cmp.Or(o.Title, "GPU report")
	queries := append([]query{ask("allocation", "health"),
		ask("allocation", "summary", "groupBy", names{"slots"}, "metrics", names{"allocatedPercent"})}, queriesOf(chosen)...)
	answers, err := o.answersTo(ctx, source, backend.TimeRange{From: o.From, To: o.To}, queries...)
	if err != nil {
		return nil, err
	}
	r := &Report{Title: clean(o.Title), Subtitle: o.window()}
	health, slots := answers[0], answers[1]
	if health.Error != nil {
		r.Failed++
		r.Notices = []string{"Coverage is unknown: " + Sentence(health.Error.Error())}
	} else {
		r.Notices = notices(health.Frames)
	}
	r.Facts, r.Headline = o.facts(health.Frames), headline(slots.Frames)
	answers = answers[2:]
	for _, s := range chosen {
		answers = r.add(o, answers, s)
	}
	return r, nil
}

// queriesOf are the queries of all parts of sections.
func queriesOf(sections []section) (queries []query) {
	for _, s := range sections {
		for _, p := range s.parts {
			queries = append(queries, p.query)
		}
	}
	return queries
}

// add lays out the answers to sections, without notices that the report has already, and returns the other answers.
func (r *Report) add(o Options, answers []backend.DataResponse, sections ...section) []backend.DataResponse {
	told := slices.Clone(r.Notices)
	for _, s := range sections {
		section := Section{Key: s.key, Title: s.title, About: s.about}
		for i, p := range s.parts {
			block := o.block(p, answers[i])
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
		r.Sections, answers = append(r.Sections, section), answers[len(s.parts):]
	}
	return answers
}

// choose returns the sections with these keys, in the order of the report.
func choose(keys []string) ([]section, error) {
	var known []string
	for _, s := range sections {
		known = append(known, s.key)
	}
	for _, key := range keys {
		if !slices.Contains(known, key) {
			return nil, pool.BadQuery("report: section %q is unknown: use %s", key, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(sections), func(s section) bool {
		return len(keys) > 0 && !slices.Contains(keys, s.key)
	}), nil
}

// points is how many points a chart has at most, by the choice of its buckets.
const points = 170

// answersTo asks the data source all queries over a window in one request, and returns the answers in their order, an
// empty one for a query that is nil. An impossible window is an error.
func (o Options) answersTo(ctx context.Context, source backend.QueryDataHandler, window backend.TimeRange,
	queries ...query) ([]backend.DataResponse, error) {
	if !window.From.Before(window.To) {
		return nil, pool.BadQuery("report: the end of the time range (%s) must be after its start (%s)",
			window.To.Format(time.RFC3339), window.From.Format(time.RFC3339))
	}
	request := &backend.QueryDataRequest{}
	for i, q := range queries {
		if q == nil {
			continue
		}
		q = maps.Clone(q)
		q["timezone"] = o.Zone.String()
		text, _ := json.Marshal(q) // it has texts, numbers and lists of them
		kind, _ := q["queryType"].(string)
		request.Queries = append(request.Queries, backend.DataQuery{RefID: strconv.Itoa(i), QueryType: kind,
			TimeRange: window, JSON: text, MaxDataPoints: points, Interval: max(window.Duration()/points, time.Second)})
	}
	response, err := source.QueryData(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("the data source did not answer: %w", err)
	}
	answers := make([]backend.DataResponse, len(queries))
	for i := range answers {
		answers[i] = response.Responses[strconv.Itoa(i)]
	}
	return answers, nil
}

// block lays one part out.
func (o Options) block(p part, answer backend.DataResponse) Block {
	if p.query == nil {
		return Block{Caption: p.caption, Paragraphs: p.paragraphs}
	}
	if answer.Error != nil {
		return Block{Caption: p.caption, Error: Sentence(answer.Error.Error())}
	}
	lay := p.lay
	if lay == nil {
		lay = table()
	}
	b := lay(o, answer.Frames)
	b.Caption, b.Notices = p.caption, notices(answer.Frames)
	if b.Table == nil && b.Chart == nil && len(b.Lists) == 0 && len(b.Paragraphs) == 0 {
		b.Empty = cmp.Or(p.empty, p.caption+": no data.")
	}
	return b
}

// severities begin the notices that are not of information only.
var severities = map[data.NoticeSeverity]string{
	data.NoticeSeverityWarning: "Warning: ", data.NoticeSeverityError: "Error: ",
}

// Told are the notices of a frame, then the sentences of its statistics.
func Told(frame *data.Frame) (all []data.Notice) {
	if frame.Meta == nil {
		return nil
	}
	all = slices.Clone(frame.Meta.Notices)
	for _, s := range frame.Meta.Stats {
		if s.Description != "" {
			all = append(all, data.Notice{Text: s.Description})
		}
	}
	return all
}

// notices are what the frames of an answer tell, each sentence once.
func notices(frames data.Frames) (texts []string) {
	for _, frame := range frames {
		for _, n := range Told(frame) {
			text := severities[n.Severity] + Sentence(n.Text)
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// headline says how much of the real and of the backfill slots was allocated: "allocated: real 71.3%, backfill 40.2%".
func headline(frames data.Frames) string {
	var parts []string
	for _, r := range records(frames) {
		if percent := r.number("allocatedPercent"); !math.IsNaN(percent) {
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
func (o Options) facts(health data.Frames) []Fact {
	var facts []Fact
	for _, frame := range health {
		for _, field := range frame.Fields {
			if field.Len() > 0 {
				facts = append(facts, Fact{displayName(field), o.value(field, 0)})
			}
		}
		for _, s := range frame.Meta.Stats {
			if slices.Contains(coverage, s.DisplayName) {
				facts = append(facts, Fact{s.DisplayName, figure(s.Value, s.Unit, nil)})
			}
		}
	}
	return append(facts, Fact{"Generated", o.time(o.Now) + " " + o.Zone.String()})
}

var lengths = regexp.MustCompile(`^([1-9]\d{0,4})([hd])$`)

// calendarMonths are the lengths, in months, of windows that are named by the calendar.
var calendarMonths = map[string]int{"month": 1, "quarter": 3, "fiscal-year": 12}

// Last returns the window of a name: 24h, 7d (or any number of hours or days) up to now; or week, month, quarter or
// fiscal-year, the last of the zone's calendar that is over. Weeks begin on Monday. Fiscal years, and with them
// quarters, begin with yearStart, a month from 1 to 12.
func Last(name string, now time.Time, zone *time.Location, yearStart int) (from, to time.Time, err error) {
	if months := calendarMonths[name]; months > 0 {
		local := now.In(zone)
		over := (int(local.Month()) - yearStart + 12) % 12 % months // months of the one that is not over
		end := time.Date(local.Year(), local.Month()-time.Month(over), 1, 0, 0, 0, 0, zone)
		return end.AddDate(0, -months, 0), end.Add(-time.Microsecond), nil
	}
	if name == "week" {
		local := now.In(zone)
		end := time.Date(local.Year(), local.Month(), local.Day()-(int(local.Weekday())+6)%7, 0, 0, 0, 0, zone)
		return end.AddDate(0, 0, -7), end.Add(-time.Microsecond), nil
	}
	m := lengths.FindStringSubmatch(name)
	if m == nil {
		return from, to, pool.BadQuery("report: %q is not a time range: use a number of hours or days such as 24h or 7d, "+
			"or week, month, quarter or fiscal-year", name)
	}
	n, _ := strconv.Atoi(m[1])
	unit := map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour}[m[2]]
	return now.Add(-time.Duration(n) * unit), now, nil
}
