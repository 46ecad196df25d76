package report

import "github.com/grafana/grafana-plugin-sdk-go/data"

// averages tables series of one point, averages over the time that polls cover, with the hours that they add up to.
func averages(name, value string) func(layout, data.Frames) Block {
	return func(_ layout, frames data.Frames) Block {
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
