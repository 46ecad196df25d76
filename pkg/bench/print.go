package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
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
			p99 = "p99 " + digits(f.P99)
		}
		if f.Target > 0 {
			target = fmt.Sprintf("≤ %g", f.Target)
			if f.Value > f.Target {
				target += "  missed"
			}
		}
		fmt.Fprintf(table, "  %s\t%s %s\t%s\t%s\t%s\n", f.What, digits(f.Value), f.Unit, p99, target, f.Note)
	}
	return table.Flush()
}

// digits leaves three that count, and all before the point.
func digits(value float64) string {
	if value >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// PrintMarkdown writes the figures as a table for a document.
func PrintMarkdown(w io.Writer, figures []Figure) error {
	table := &strings.Builder{}
	table.WriteString("| | | figure | wanted | |\n|---|---|--:|--:|---|\n")
	area := ""
	for _, f := range figures {
		heading := ""
		if f.Area != area {
			area, heading = f.Area, f.Area
		}
		note, target := f.Note, ""
		if f.P99 > 0 {
			note = strings.TrimPrefix(fmt.Sprintf("%s, p99 %s %s", note, digits(f.P99), f.Unit), ", ")
		}
		if f.Target > 0 {
			target = fmt.Sprintf("≤ %g", f.Target)
			if f.Value > f.Target {
				target = "**" + target + "**"
			}
		}
		fmt.Fprintf(table, "| %s | %s | %s %s | %s | %s |\n", heading, f.What, digits(f.Value), f.Unit, target, note)
	}
	_, err := io.WriteString(w, table.String())
	return err
}

// PrintJSON writes the figures for a machine.
func PrintJSON(w io.Writer, figures []Figure) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(figures)
}
