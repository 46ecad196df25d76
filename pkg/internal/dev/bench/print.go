package bench

import (
	"fmt"
	"io"
	"strconv"
)

// Print writes the figures as a Markdown table; bounds that are missed are bold.
func Print(w io.Writer, figures []Figure) error {
	_, err := fmt.Fprint(w, "| | figure | CPU time | held to | |\n|---|--:|--:|--:|---|\n")
	for _, f := range figures {
		bound := f.bound()
		if f.Missed() {
			bound = "**" + bound + "**"
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", f.What, f.value(), f.cpu(), bound, f.Note)
		}
	}
	return err
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
