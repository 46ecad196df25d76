package report

import (
	"slices"
	"time"

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
	Item    RowKind = "item"  // of the heading above
	Total   RowKind = "total"
)

// layout lays frames out.
type layout struct {
	options Options
	zone    *time.Location
}

const rowType = "rowType"

// table shows a frame's columns but the hidden ones.
func table(hidden ...string) func(layout, data.Frames) Block {
	return where(nil, hidden...)
}

// where shows only the rows for which fits is true (nil: all); if there are none, there is no table.
func where(fits func(frame *data.Frame, row int) bool, hidden ...string) func(layout, data.Frames) Block {
	return func(l layout, frames data.Frames) Block {
		return Block{Table: l.table(frames, fits, hidden...)}
	}
}

// table returns nil if no row is left.
func (l layout) table(frames data.Frames, fits func(*data.Frame, int) bool, hidden ...string) *Table {
	t := &Table{}
	for _, frame := range frames {
		if len(frame.Fields) == 0 {
			continue
		}
		kinds := column(frame, rowType)
		var shown []*data.Field
		for _, field := range frame.Fields {
			if field.Name != rowType && !slices.Contains(hidden, field.Name) {
				shown = append(shown, field)
			}
		}
		t.Columns = l.columns(shown)
		for r := range frame.Fields[0].Len() {
			if fits != nil && !fits(frame, r) {
				continue
			}
			row := Row{Cells: make([]string, len(shown))}
			if kinds != nil && text(kinds, r) == "total" {
				row.Kind = Total
			}
			for i, field := range shown {
				row.Cells[i] = l.cell(field, r)
				if row.Kind == Total && i == 0 && row.Cells[0] == "" {
					row.Cells[0] = "All"
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}

func (l layout) columns(fields []*data.Field) []Column {
	columns := make([]Column, len(fields))
	for i, field := range fields {
		columns[i] = Column{Name: heading(field), Number: isNumber(field)}
		if isTime(field) {
			columns[i].Name += " (" + l.zoneName() + ")"
		}
	}
	return columns
}

// grouped puts the rows of each value of the first column under a heading, so that the second column names them.
func grouped(name string) func(layout, data.Frames) Block {
	return func(l layout, frames data.Frames) Block {
		t := l.table(frames, nil)
		if t == nil {
			return Block{}
		}
		t.Columns = t.Columns[1:]
		t.Columns[0].Name = name
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
}

// users lays out user hours: slot types with their hours and number of users, and the users below.
func users(l layout, frames data.Frames) Block {
	t := &Table{}
	for _, frame := range frames {
		if len(frame.Fields) == 0 {
			continue
		}
		group, user, kinds := column(frame, "category"), column(frame, "user"), column(frame, rowType)
		var figures []*data.Field
		for _, name := range []string{"userCount", "gpuHours", "percentOfTotal"} {
			figures = append(figures, column(frame, name))
		}
		t.Columns = append([]Column{{Name: "Slot type, user"}}, l.columns(figures)...)
		for r := range frame.Fields[0].Len() {
			row := Row{Cells: make([]string, 1+len(figures))}
			for i, f := range figures {
				row.Cells[1+i] = l.cell(f, r)
			}
			switch text(kinds, r) {
			case "group":
				row.Kind, row.Cells[0] = Heading, clean(text(group, r))
			case "user":
				row.Kind, row.Cells[0], row.Cells[1] = Item, clean(text(user, r)), ""
			default:
				row.Kind, row.Cells[0] = Total, clean(text(group, r))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 {
		return Block{}
	}
	return Block{Table: t}
}

// transitions lays counts of from and to out as a square.
func transitions(l layout, frames data.Frames) Block {
	states := []string{"available", "used", "taken", "blocked", "absent"}
	counts := map[[2]string]string{}
	for _, frame := range frames {
		if len(frame.Fields) == 0 {
			continue
		}
		from, to, count := column(frame, "from"), column(frame, "to"), column(frame, "count")
		for r := range from.Len() {
			pair := [2]string{text(from, r), text(to, r)}
			for _, state := range pair {
				if !slices.Contains(states, state) {
					states = append(states, state)
				}
			}
			counts[pair] = l.cell(count, r)
		}
	}
	if len(counts) == 0 {
		return Block{}
	}
	t := &Table{Columns: []Column{{Name: "From \\ to"}}}
	for _, to := range states {
		t.Columns = append(t.Columns, Column{Name: clean(to), Number: true})
	}
	for _, from := range states {
		row := Row{Cells: []string{clean(from)}}
		for _, to := range states {
			count, ok := counts[[2]string{from, to}]
			if !ok && from == to && from != "used" { // no change
				count = none
			} else if !ok {
				count = "0"
			}
			row.Cells = append(row.Cells, count)
		}
		t.Rows = append(t.Rows, row)
	}
	return Block{Table: t}
}

// machineLists names the machines of each ownership, those that are excluded left out.
func machineLists(_ layout, frames data.Frames) Block {
	var b Block
	for _, frame := range frames {
		if len(frame.Fields) == 0 {
			continue
		}
		machine, ownership := column(frame, "machine"), column(frame, "ownership")
		excluded := column(frame, "excludedReason")
		for _, owner := range []string{"CHTC Owned", "Researcher Owned", "Open Capacity"} {
			list := List{Title: owner}
			for r := range machine.Len() {
				if text(ownership, r) == owner && text(excluded, r) == "" {
					list.Items = append(list.Items, clean(text(machine, r)))
				}
			}
			b.Lists = append(b.Lists, list)
		}
	}
	return b
}
