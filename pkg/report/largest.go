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
		var rows, totals []record
		for r := range records(frames) {
			if r.kind() == "total" {
				totals = append(totals, r)
			} else if r.number(name) > 0 {
				rows = append(rows, r)
			}
		}
		slices.SortStableFunc(rows, func(a, b record) int { return cmp.Compare(b.number(name), a.number(name)) })
		if len(rows) == 0 {
			return Block{}
		}
		return Block{Table: l.tableOf(append(rows[:min(len(rows), most)], totals...))}
	}
}
