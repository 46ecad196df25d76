package report

import (
	"cmp"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// largest shows the rows with the largest values of a column, at most most of them, and the total. Rows without a value
// above 0 are left out; without any there is no table.
func largest(name string, most int) func(layout, data.Frames) Block {
	return func(l layout, frames data.Frames) Block {
		if len(frames) == 0 || column(frames[0], name) == nil {
			return Block{}
		}
		frame := frames[0]
		values, kinds := column(frame, name), column(frame, rowType)
		var rows []int
		for r := range values.Len() {
			if number(values, r) > 0 && (kinds == nil || text(kinds, r) != "total") {
				rows = append(rows, r)
			}
		}
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(number(values, b), number(values, a)) })
		if len(rows) == 0 {
			return Block{}
		}
		rows = rows[:min(len(rows), most)]
		for r := range values.Len() {
			if kinds != nil && text(kinds, r) == "total" {
				rows = append(rows, r)
			}
		}
		return Block{Table: l.table(data.Frames{inOrder(frame, rows)}, nil)}
	}
}

// inOrder returns a frame's rows of the given numbers, in their order.
func inOrder(frame *data.Frame, rows []int) *data.Frame {
	sorted := frame.EmptyCopy()
	for i, field := range frame.Fields {
		sorted.Fields[i].Config = field.Config
		for _, r := range rows {
			sorted.Fields[i].Append(field.CopyAt(r))
		}
	}
	return sorted
}
