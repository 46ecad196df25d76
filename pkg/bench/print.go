package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the figures as one table.
func Print(w io.Writer, figures []Figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	area := ""
	for _, f := range figures {
		if f.Area != area {
			area = f.Area
			fmt.Fprintf(table, "\n%s\t\t\t\t\t\n", area)
		}
		p99, target := "", ""
		if f.P99 > 0 {
			p99 = fmt.Sprintf("p99 %.3g", f.P99)
		}
		if f.Target > 0 {
			target = fmt.Sprintf("≤ %g", f.Target)
			if f.Value > f.Target {
				target += "  missed"
			}
		}
		fmt.Fprintf(table, "  %s\t%.3g %s\t%s\t%s\t%s\n", f.What, f.Value, f.Unit, p99, target, f.Note)
	}
	return table.Flush()
}

// PrintJSON writes the figures for a machine.
func PrintJSON(w io.Writer, figures []Figure) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(figures)
}
