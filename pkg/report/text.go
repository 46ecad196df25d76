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

// Text writes the report as plain text of so many columns, with words for the charts.
func (r *Report) Text(out io.Writer, width int) error {
	w := writer{bufio.NewWriter(out), max(width, MinWidth)}
	w.heading(r.Title, "=")
	w.line(r.Subtitle)
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
		if s.Title != "" {
			w.line("")
			w.line("")
			w.heading(s.Title, "=")
		}
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
	for i, line := range Wrap(text, w.width-indent) {
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
	if b.Chart != nil && len(b.Chart.Bars) > 0 { // the table beneath says it
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
	case b.Chart != nil:
		for _, line := range b.Chart.Told {
			w.hanging("", line)
		}
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

// table writes a table in columns. Where it is too wide its texts are broken, figures never: those that find no room
// follow in a table of their own.
func (w writer) table(t *Table) {
	for i, part := range w.parts(t) {
		if i > 0 {
			w.line("")
		}
		w.columns(part)
	}
}

// parts are the table, or the first column with as many of the others as fit each.
func (w writer) parts(t *Table) (parts []*Table) {
	for first := 1; first < len(t.Columns) || first == 1; {
		end := len(t.Columns)
		var part *Table
		for part = pick(t, first, end); w.least(part) > w.width && end > first+1; part = pick(t, first, end) {
			end--
		}
		parts, first = append(parts, part), max(end, first+1)
	}
	return parts
}

// pick returns the first column and those of [first, end).
func pick(t *Table, first, end int) *Table {
	choose := func(cells []string) []string { return append(cells[:1:1], cells[first:end]...) }
	p := &Table{Columns: append(t.Columns[:1:1], t.Columns[first:end]...), Rows: make([]Row, len(t.Rows))}
	for i, row := range t.Rows {
		p.Rows[i] = row
		if len(row.Cells) > 1 {
			p.Rows[i].Cells = choose(row.Cells)
		}
	}
	return p
}

func (w writer) columns(t *Table) {
	_, widths := w.widths(t)
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

// narrowest is the least width of a column of texts.
const narrowest = 14

// least is the width of the table with its texts broken.
func (w writer) least(t *Table) int {
	least, _ := w.widths(t)
	return sum(least)
}

func sum(widths []int) int {
	total := (len(widths) - 1) * len(between)
	for _, n := range widths {
		total += n
	}
	return total
}

// widths are as wide as the cells; then the widest texts are narrowed, not below the least, until the line fits.
func (w writer) widths(t *Table) (least, widths []int) {
	least, widths = make([]int, len(t.Columns)), make([]int, len(t.Columns))
	for i, c := range t.Columns {
		for _, word := range strings.Fields(c.Name) {
			widths[i] = max(widths[i], screen.StringWidth(word))
		}
		for _, row := range t.Rows {
			if i >= len(row.Cells) || row.Kind == Heading && len(row.Cells) == 1 {
				continue
			}
			n := screen.StringWidth(row.Cells[i])
			if row.Kind == Item && i == 0 {
				n += 2
			}
			widths[i] = max(widths[i], n)
		}
		least[i] = widths[i]
		if !c.Number {
			least[i] = min(widths[i], narrowest)
		}
	}
	for total := sum(widths); total > w.width; total-- {
		widest := -1
		for i := range widths {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return least, widths
}

// row writes cells side by side, a heading's at the bottom, a row's at the top.
func (w writer) row(t *Table, widths []int, cells []string, bottom bool) {
	lines, height := make([][]string, len(cells)), 0
	for i, cell := range cells {
		lines[i] = Wrap(cell, widths[i])
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

// Wrap breaks a text into lines of at most so many columns: at blanks, and in words that are longer. Further lines are
// as indented as the first.
func Wrap(text string, width int) (lines []string) {
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
