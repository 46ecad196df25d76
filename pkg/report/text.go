package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Width of text in columns, for terminals and mail.
const (
	MinWidth     = 72
	DefaultWidth = 100
)

// screen measures texts: wide characters take two columns, marks none; the reader's locale does not matter.
var screen = &runewidth.Condition{StrictEmojiNeutral: true}

// Text writes the report as plain text of so many columns, without the charts.
func (r *Report) Text(out io.Writer, width int) error {
	w := writer{bufio.NewWriter(out), max(width, MinWidth)}
	w.heading(r.Title, "=")
	w.line("")
	names := 0
	for _, f := range r.Facts {
		names = max(names, screen.StringWidth(f.Name))
	}
	for _, f := range r.Facts {
		w.hanging(pad(f.Name, names, false)+"  ", f.Value)
	}
	w.notices(r.Notices)
	for _, s := range r.Sections {
		w.line("")
		w.line("")
		w.heading(s.Title, "=")
		if s.About != "" {
			w.hanging("", s.About)
		}
		for _, b := range s.Blocks {
			w.block(s, b)
		}
	}
	return w.Flush()
}

type writer struct {
	*bufio.Writer
	width int
}

func (w writer) line(text string) { fmt.Fprintln(w, strings.TrimRight(text, " ")) }

func (w writer) heading(text, underline string) {
	w.line(text)
	w.line(strings.Repeat(underline, min(screen.StringWidth(text), w.width)))
}

// hanging writes a text behind a beginning, beneath which its further lines are empty.
func (w writer) hanging(begin, text string) {
	indent := screen.StringWidth(begin)
	for i, line := range wrap(text, w.width-indent) {
		if i > 0 {
			begin = strings.Repeat(" ", indent)
		}
		w.line(begin + line)
	}
}

func (w writer) notices(texts []string) {
	for _, n := range texts {
		w.hanging("* ", n)
	}
}

func (w writer) block(s Section, b Block) {
	if b.Chart != nil {
		w.notices(b.Notices)
		return
	}
	w.line("")
	if b.Caption != "" && b.Caption != s.Title && b.Empty == "" {
		w.line(b.Caption)
	}
	switch {
	case b.Error != "":
		w.hanging("! ", b.Error)
	case b.Table != nil:
		w.table(b.Table)
	case b.Empty != "":
		w.line(b.Empty)
	}
	for _, list := range b.Lists {
		w.hanging("", fmt.Sprintf("%s (%d)", list.Title, len(list.Items)))
		if len(list.Items) > 0 {
			w.hanging("  ", strings.Join(list.Items, ", "))
		}
	}
	for i, p := range b.Paragraphs {
		if i > 0 {
			w.line("")
		}
		w.hanging("", p)
	}
	w.notices(b.Notices)
}

// table writes a table in columns. Where it is too wide its texts are broken, figures never.
func (w writer) table(t *Table) {
	widths := w.widths(t)
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.Name
	}
	w.row(t, widths, head, true)
	rule := make([]string, len(t.Columns))
	for i := range rule {
		rule[i] = strings.Repeat("-", widths[i])
	}
	w.row(t, widths, rule, false)
	for i, row := range t.Rows {
		if row.Kind == Total && i > 0 && t.Rows[i-1].Kind != Total {
			w.row(t, widths, rule, false)
		}
		if row.Kind == Heading && len(row.Cells) == 1 {
			w.hanging("", row.Cells[0])
			continue
		}
		cells := slices.Clone(row.Cells)
		if row.Kind == Item {
			cells[0] = "  " + cells[0]
		}
		w.row(t, widths, cells, false)
	}
}

const between = "  "

// widths are as wide as the cells, then the widest texts are narrowed until the line fits.
func (w writer) widths(t *Table) []int {
	widths, least := make([]int, len(t.Columns)), make([]int, len(t.Columns))
	for i, c := range t.Columns {
		for _, word := range strings.Fields(c.Name) {
			least[i] = max(least[i], min(screen.StringWidth(word), 24))
		}
		widths[i] = least[i]
	}
	for _, row := range t.Rows {
		for i, cell := range row.Cells {
			n := screen.StringWidth(cell)
			if row.Kind == Item && i == 0 {
				n += 2
			}
			if row.Kind == Heading && len(row.Cells) == 1 {
				continue
			}
			widths[i] = max(widths[i], n)
			if t.Columns[i].Number {
				least[i] = max(least[i], n)
			}
		}
	}
	total := (len(widths) - 1) * len(between)
	for _, n := range widths {
		total += n
	}
	for ; total > w.width; total-- {
		widest := -1
		for i, c := range t.Columns {
			if !c.Number && widths[i] > max(least[i], 12) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // nothing but figures left: the line is longer
		}
		widths[widest]--
	}
	return widths
}

// row writes cells side by side, a heading's at the bottom, a row's at the top.
func (w writer) row(t *Table, widths []int, cells []string, bottom bool) {
	lines, height := make([][]string, len(cells)), 0
	for i, cell := range cells {
		lines[i] = wrap(cell, widths[i])
		height = max(height, len(lines[i]))
	}
	for l := range height {
		var line strings.Builder
		for i := range cells {
			at := l
			if bottom {
				at -= height - len(lines[i])
			}
			part := ""
			if at >= 0 && at < len(lines[i]) {
				part = lines[i][at]
			}
			if i > 0 {
				line.WriteString(between)
			}
			line.WriteString(pad(part, widths[i], t.Columns[i].Number))
		}
		w.line(line.String())
	}
}

func pad(text string, width int, right bool) string {
	space := strings.Repeat(" ", max(0, width-screen.StringWidth(text)))
	if right {
		return space + text
	}
	return text + space
}

// wrap breaks a text into lines of at most so many columns: at blanks, and in words that are longer. Further lines are
// as indented as the first.
func wrap(text string, width int) (lines []string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := indent
	for _, word := range strings.Fields(text) {
		if line != indent && screen.StringWidth(line)+1+screen.StringWidth(word) > width {
			lines, line = append(lines, line), indent
		}
		if line != indent {
			line += " "
		}
		for screen.StringWidth(line)+screen.StringWidth(word) > width {
			head := screen.Truncate(word, max(width-screen.StringWidth(line), 1), "")
			if head == "" { // wider than the line
				head = string([]rune(word)[:1])
			}
			lines, line, word = append(lines, line+head), indent, strings.TrimPrefix(word, head)
			if word == "" {
				break
			}
		}
		line += word
	}
	if line != indent || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// shorten cuts a text to so many columns, visibly.
func shorten(text string, width int) string { return screen.Truncate(text, width, "…") }
