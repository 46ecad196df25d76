package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// Answer is a data source's answer to one query.
type Answer struct {
	Name string // its heading; "" for the only answer in a text
	backend.DataResponse
}

// Lay lays out answers to any queries over the window of the options, each under its name: tables unchanged, series
// side by side.
func Lay(o Options, answers []Answer) *Report {
	o.Zone = cmp.Or(o.Zone, time.UTC)
	r := &Report{Title: clean(o.Title), Subtitle: o.window()}
	for i, a := range answers {
		s := Section{Key: fmt.Sprintf("answer %d", i+1), Title: clean(a.Name)}
		if a.Error != nil {
			r.Failed++
			s.Blocks = []Block{{Caption: s.Title, Error: Sentence(a.Error.Error())}}
		} else {
			s.Blocks = o.blocks(s.Title, a.Frames)
		}
		r.Sections = append(r.Sections, s)
	}
	return r
}

// blocks returns the tables of an answer, with the series first.
func (o Options) blocks(name string, frames data.Frames) []Block {
	var all []Block
	var series data.Frames
	for _, frame := range frames {
		if isSeries(frame) {
			series = append(series, frame)
			continue
		}
		b := Block{Caption: cmp.Or(clean(frame.Name), name), Notices: notices(data.Frames{frame}), Table: o.answered(frame)}
		if b.Table == nil {
			b.Empty = "No data."
		}
		all = append(all, b)
	}
	if len(series) > 0 {
		all = append([]Block{{Caption: name, Notices: notices(series), Table: o.sideBySide(series)}}, all...)
	}
	return all
}

func isSeries(frame *data.Frame) bool {
	return frame.Meta != nil && frame.Meta.Type == data.FrameTypeTimeSeriesMulti && len(frame.Fields) == 2
}

// answered returns a frame's table, or nil if it has no rows. A group's row is followed by the rows of its users, which
// do not repeat the group.
func (o Options) answered(frame *data.Frame) *Table {
	t := o.table(records(data.Frames{frame}))
	if t == nil {
		return nil
	}
	var group []string
	for _, row := range t.Rows {
		if row.Kind == Heading {
			group = row.Cells
		}
		for i, cell := range row.Cells {
			if row.Kind == Item && (cell == none || group != nil && !t.Columns[i].Number && cell == group[i]) {
				row.Cells[i] = ""
			}
		}
	}
	return t
}

// sideBySide joins series by time, with one column for each.
func (o Options) sideBySide(frames data.Frames) *Table {
	t := &Table{Columns: o.columns([]*data.Field{frames[0].Fields[0]})}
	times, cells := byTime(frames, o.cell)
	for _, frame := range frames {
		value := frame.Fields[1]
		name := SeriesName(value, displayName(value), clean)
		t.Columns = append(t.Columns, Column{Name: withUnit(name, unitOf(value)), Number: true})
	}
	for _, at := range times {
		t.Rows = append(t.Rows, Row{Cells: append([]string{o.time(at)}, cells[at]...)})
	}
	return t
}

// byTime joins series: the values of all at each time of any, zero where a series has none.
func byTime[V any](series data.Frames, value func(*data.Field, int) V) (times []time.Time, values map[time.Time][]V) {
	values = map[time.Time][]V{}
	for i, frame := range series {
		for row := range frame.Rows() {
			if at, ok := frame.Fields[0].ConcreteAt(row); ok {
				utc := at.(time.Time).UTC()
				if values[utc] == nil {
					values[utc] = make([]V, len(series))
				}
				values[utc][i] = value(frame.Fields[1], row)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(values), time.Time.Compare), values
}

// SeriesName names a series by the values of its labels, written by show, or otherwise if it has none.
func SeriesName(field *data.Field, otherwise string, show func(string) string) string {
	if len(field.Labels) == 0 {
		return otherwise
	}
	var values []string
	for _, label := range slices.Sorted(maps.Keys(field.Labels)) {
		values = append(values, show(field.Labels[label]))
	}
	return strings.Join(values, ", ")
}
