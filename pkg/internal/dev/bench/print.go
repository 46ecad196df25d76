package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Print writes the figures as a table for a terminal; bounds that are missed are marked.
func Print(w io.Writer, figures []Figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range figures {
		bound := f.bound()
		if f.Missed() {
			bound += " missed"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.What, f.value(), f.cpu(), bound, f.Note)
	}
	return table.Flush()
}

// PrintMarkdown writes the figures as a table for a document; bounds that are missed are bold.
func PrintMarkdown(w io.Writer, figures []Figure) error {
	table := &strings.Builder{}
	table.WriteString("| | figure | CPU time | held to | |\n|---|--:|--:|--:|---|\n")
	for _, f := range figures {
		bound := f.bound()
		if f.Missed() {
			bound = "**" + bound + "**"
		}
		fmt.Fprintf(table, "| %s | %s | %s | %s | %s |\n", f.What, f.value(), f.cpu(), bound, f.Note)
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

func (f Figure) value() string { return digits(f.Value) + " " + f.Unit }

func (f Figure) cpu() string {
	if f.CPU == 0 {
		return ""
	}
	return digits(f.CPU) + " ms"
}

func (f Figure) bound() string {
	if f.AtLeast {
		return fmt.Sprintf("≥ %g", f.Bound)
	}
	return fmt.Sprintf("≤ %g", f.Bound)
}

// digits leaves three that count, and all before the point.
func digits(value float64) string {
	if value >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
