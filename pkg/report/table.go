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

// Table is a table of figures.
type Table struct {
	Columns []Column
	Rows    []Row
}

// Column is a table's column.
type Column struct {
	Name   string
	Number bool // aligned right
}

// Row is a table's row. Its first cell names it.
type Row struct {
	Kind  RowKind
	Cells []string // as many as columns; a heading may have only one
}

// RowKind is the role of a row.
type RowKind string

// Kinds of rows.
const (
	Plain   RowKind = ""
	Heading RowKind = "group" // heads the items beneath it
	Item    RowKind = "item"  // belongs to the heading above
	Total   RowKind = "total"
)

const rowType = "rowType"

// rowKinds are the kinds of rows by the value of rowType.
var rowKinds = map[string]RowKind{"group": Heading, "user": Item, "total": Total}

// table shows a frame's columns but the hidden ones.
func table(hidden ...string) func(Options, data.Frames) Block {
	return where(nil, hidden...)
}

// where shows only the rows for which fits is true (nil: all); without any, the table is left out.
func where(fits func(record) bool, hidden ...string) func(Options, data.Frames) Block {
	return func(o Options, frames data.Frames) Block {
		rows := records(frames)
		if fits != nil {
			rows = slices.DeleteFunc(rows, func(r record) bool { return !fits(r) })
		}
		return Block{Table: o.table(rows, hidden...)}
	}
}

// table shows rows of one frame; nil without any.
func (o Options) table(rows []record, hidden ...string) *Table {
	if len(rows) == 0 {
		return nil
	}
	shown := slices.DeleteFunc(slices.Clone(rows[0].Fields), func(field *data.Field) bool {
		return field.Name == rowType || slices.Contains(hidden, field.Name)
	})
	t := &Table{Columns: o.columns(shown)}
	for _, r := range rows {
		row := Row{Kind: rowKinds[r.text(rowType)]}
		for _, field := range shown {
			row.Cells = append(row.Cells, o.cell(field, r.row))
		}
		if row.Kind == Total {
			row.Cells[0] = cmp.Or(row.Cells[0], "All")
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (o Options) columns(fields []*data.Field) []Column {
	columns := make([]Column, len(fields))
	for i, field := range fields {
		columns[i] = Column{Name: withUnit(displayName(field), unitOf(field)), Number: isNumber(field)}
		if isTime(field) {
			columns[i].Name += " (" + o.Zone.String() + ")"
		}
	}
	return columns
}

// grouped puts the devices of each category under a heading.
func grouped(o Options, frames data.Frames) Block {
	t := o.table(records(frames))
	if t == nil {
		return Block{}
	}
	t.Columns = t.Columns[1:]
	t.Columns[0].Name = "Category, device"
	var rows []Row
	group := ""
	for _, row := range t.Rows {
		first, rest := row.Cells[0], row.Cells[1:]
		if row.Kind == Total {
			rest[0] = first
		} else {
			row.Kind = Item
			if len(rows) == 0 || first != group {
				group = first
				rows = append(rows, Row{Kind: Heading, Cells: []string{first}})
			}
		}
		row.Cells = rest
		rows = append(rows, row)
	}
	t.Rows = rows
	return Block{Table: t}
}

// users lays out user hours: slot types with their hours and number of users, and the users below.
func users(o Options, frames data.Frames) Block {
	t := o.table(records(frames))
	if t == nil {
		return Block{}
	}
	t.Columns = slices.Delete(t.Columns, 1, 2)
	t.Columns[0].Name = "Slot type, user"
	for i, row := range t.Rows {
		if row.Kind == Item {
			row.Cells[0], row.Cells[2] = row.Cells[1], "" // counts no users
		}
		t.Rows[i].Cells = slices.Delete(row.Cells, 1, 2)
	}
	return Block{Table: t}
}

// transitions lays counts of from and to out as a square.
func transitions(o Options, frames data.Frames) Block {
	counts := map[[2]string]string{}
	for _, r := range records(frames) {
		counts[[2]string{r.text("from"), r.text("to")}] = o.cell(r.field("count"), r.row)
	}
	if len(counts) == 0 {
		return Block{}
	}
	states := names{"available", "used", "taken", "blocked", "absent"}
	t := &Table{Columns: []Column{{Name: "From \\ to"}}}
	for _, to := range states {
		t.Columns = append(t.Columns, Column{to, true})
	}
	for _, from := range states {
		row := Row{Cells: []string{from}}
		for _, to := range states {
			missing := "0"
			if from == to && from != "used" { // no change
				missing = none
			}
			row.Cells = append(row.Cells, cmp.Or(counts[[2]string{from, to}], missing))
		}
		t.Rows = append(t.Rows, row)
	}
	return Block{Table: t}
}

// machineLists names the machines of each ownership, those that are excluded left out.
func machineLists(_ Options, frames data.Frames) (b Block) {
	if !slices.ContainsFunc(frames, func(f *data.Frame) bool { return len(f.Fields) > 0 }) {
		return b
	}
	for _, owner := range []string{"CHTC Owned", "Researcher Owned", "Open Capacity"} {
		list := List{Title: owner}
		for _, r := range records(frames) {
			if r.text("ownership") == owner && r.text("excludedReason") == "" {
				list.Items = append(list.Items, clean(r.text("machine")))
			}
		}
		b.Lists = append(b.Lists, list)
	}
	return b
}

// largest shows the rows with the largest values of a column, at most most of them, and the total. Rows without a value
// above 0 are left out; without any, the table is too.
func largest(name string, most int) func(Options, data.Frames) Block {
	return func(o Options, frames data.Frames) Block {
		var rows, totals []record
		for _, r := range records(frames) {
			if r.text(rowType) == "total" {
				totals = append(totals, r)
			} else if r.number(name) > 0 {
				rows = append(rows, r)
			}
		}
		slices.SortStableFunc(rows, func(a, b record) int { return cmp.Compare(b.number(name), a.number(name)) })
		if len(rows) == 0 {
			return Block{}
		}
		return Block{Table: o.table(append(rows[:min(len(rows), most)], totals...))}
	}
}

// averages tables series of one point, averages over the time that polls cover, with the hours that they add up to.
func averages(name, value string) func(Options, data.Frames) Block {
	return func(_ Options, frames data.Frames) Block {
		t := &Table{Columns: []Column{{Name: name}, {value + " (avg.)", true}, {"GPU hours", true}}}
		sum, hours := 0.0, 0.0
		for _, frame := range frames {
			if !isSeries(frame) || frame.Fields[1].Len() == 0 {
				continue
			}
			if len(t.Rows) == 0 {
				hours = stat(frame, "Hours of polls with snapshots")
			}
			gpus := number(frame.Fields[1], 0)
			sum += gpus
			t.Rows = append(t.Rows, Row{Cells: []string{displayName(frame.Fields[1]), gpuHours(gpus), gpuHours(gpus * hours)}})
		}
		if len(t.Rows) == 0 {
			return Block{}
		}
		t.Rows = append(t.Rows, Row{Kind: Total, Cells: []string{"All", gpuHours(sum), gpuHours(sum * hours)}})
		return Block{Table: t}
	}
}

// adviceSentences say of each device how long a backfill job can be.
func adviceSentences(_ Options, frames data.Frames) (b Block) {
	for _, r := range records(frames) {
		b.Paragraphs = append(b.Paragraphs, clean(r.text("device"))+": "+r.text("advice")+".")
	}
	return b
}

// Answer is a data source's answer to one query.
type Answer struct {
	Name string // its heading; "" for the only answer in a text
	backend.DataResponse
}

// Lay lays out answers to any queries over the window of the options, by name: tables unchanged, series side by side.
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

// answered returns a frame's table, nil if it has no rows. The rows of a group's users do not repeat the group.
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
