package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeText writes tables for a terminal or a mail, each with its notices beneath.
func writeText(out, err io.Writer, answers []answer) error {
	w := bufio.NewWriter(out)
	for i, a := range answers {
		if len(answers) > 1 {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "── %s ──\n", clean(a.RefID))
		}
		if a.Error != nil {
			fmt.Fprintf(err, "%s: %v\n", a.RefID, a.Error)
			continue
		}
		for j, g := range grids(a) {
			if j > 0 {
				fmt.Fprintln(w)
			}
			g.writeText(w)
		}
	}
	return w.Flush()
}

func (g grid) writeText(w io.Writer) {
	if g.title != "" {
		fmt.Fprintf(w, "%s\n", clean(g.title))
	}
	if len(g.rows) == 0 {
		fmt.Fprintln(w, "No data.")
	} else {
		widths := make([]int, len(g.columns))
		for _, row := range g.rows {
			for i, cell := range row.cells {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
		heads, lines := make([][]string, len(g.columns)), 0
		for i, c := range g.columns {
			heads[i] = wrap(c.name, max(widths[i], 12))
			lines = max(lines, len(heads[i]))
			for _, line := range heads[i] {
				widths[i] = max(widths[i], utf8.RuneCountInString(line))
			}
		}
		cells := make([]string, len(g.columns))
		for l := range lines {
			for i, head := range heads {
				cells[i] = ""
				if k := l - (lines - len(head)); k >= 0 {
					cells[i] = head[k]
				}
			}
			g.writeLine(w, cells, widths)
		}
		rule := make([]string, len(g.columns))
		for i, width := range widths {
			rule[i] = strings.Repeat("─", width)
		}
		g.writeLine(w, rule, widths)
		for i, row := range g.rows {
			if row.kind == "total" && i > 0 && g.rows[i-1].kind != "total" {
				g.writeLine(w, rule, widths)
			}
			g.writeLine(w, row.cells, widths)
		}
	}
	for _, n := range g.notices {
		for i, line := range wrap(noticeText(n), 110) {
			if i == 0 {
				fmt.Fprintf(w, "· %s\n", line)
			} else {
				fmt.Fprintf(w, "  %s\n", line)
			}
		}
	}
}

func (g grid) writeLine(w io.Writer, cells []string, widths []int) {
	var line strings.Builder
	for i, cell := range cells {
		if i > 0 {
			line.WriteString("  ")
		}
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if g.columns[i].number {
			line.WriteString(space + cell)
		} else {
			line.WriteString(cell + space)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// wrap breaks a text at blanks into lines of at most so many characters, where its words allow.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
