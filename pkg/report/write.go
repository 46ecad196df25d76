package report

import (
	"bufio"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// minWidth of text in columns, for terminals and mail.
const minWidth = 72

// screen measures texts: wide characters take two columns and combining marks none, regardless of the reader's locale.
var screen = &runewidth.Condition{StrictEmojiNeutral: true}

// Text writes the report as plain text of the given width in columns, with words for the charts.
func (r *Report) Text(out io.Writer, width int) error {
	w := writer{bufio.NewWriter(out), max(width, minWidth)}
	w.heading(r.Title)
	w.line(r.Subtitle)
	w.line("")
	names := 0
	for _, f := range r.Facts {
		names = max(names, screen.StringWidth(f.Name))
	}
	for _, f := range r.Facts {
		w.hanging(screen.FillRight(f.Name, names)+"  ", f.Value)
	}
	w.notices(r.Notices)
	for _, s := range r.Sections {
		if s.Title != "" {
			w.line("")
			w.line("")
			w.heading(s.Title)
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

func (w writer) heading(text string) {
	w.line(text)
	w.line(strings.Repeat("=", min(screen.StringWidth(text), w.width)))
}

// hanging writes begin followed by a text, and indents the text's other lines by the width of begin.
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
	if b.Chart != nil && len(b.Chart.Bars) > 0 { // the table below it says the same
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

// textColumn is a column of a text table.
type textColumn struct {
	Column
	cells []string // by row
	least int      // its width if its texts are wrapped
	width int
}

const between = "  "

// narrowest is the minimum width of a column of texts.
const narrowest = 14

// standsAlone reports whether a row is a heading that spans all columns.
func standsAlone(row Row) bool { return row.Kind == Heading && len(row.Cells) == 1 }

// textColumns returns a table's columns, each as wide as its cells and the words of its name.
func textColumns(t *Table) []textColumn {
	columns := make([]textColumn, len(t.Columns))
	for i := range columns {
		c := &columns[i]
		c.Column, c.cells = t.Columns[i], make([]string, len(t.Rows))
		for _, word := range strings.Fields(c.Name) {
			c.width = max(c.width, screen.StringWidth(word))
		}
		for r, row := range t.Rows {
			if standsAlone(row) {
				continue
			}
			if c.cells[r] = row.Cells[i]; i == 0 && row.Kind == Item {
				c.cells[r] = "  " + row.Cells[0]
			}
			c.width = max(c.width, screen.StringWidth(c.cells[r]))
		}
		c.least = c.width
		if !c.Number {
			c.least = min(c.width, narrowest)
		}
	}
	return columns
}

// table writes a table in columns. If it is too wide, its texts are wrapped, but never its figures: columns that do not
// fit follow in a second table, which repeats the first column.
func (w writer) table(t *Table) {
	all := textColumns(t)
	first, rest := all[0], all[1:]
	for {
		part, least := []textColumn{first}, first.least
		for len(rest) > 0 {
			if least += len(between) + rest[0].least; least > w.width && len(part) > 1 {
				break
			}
			part, rest = append(part, rest[0]), rest[1:]
		}
		narrow(part, w.width)
		w.columns(t.Rows, part)
		if len(rest) == 0 {
			return
		}
		w.line("")
	}
}

// narrow shrinks the widest columns until all fit, but none below its minimum width.
func narrow(columns []textColumn, width int) {
	total := (len(columns) - 1) * len(between)
	for _, c := range columns {
		total += c.width
	}
	for ; total > width; total-- {
		var widest *textColumn
		for i := range columns {
			if c := &columns[i]; c.width > c.least && (widest == nil || c.width > widest.width) {
				widest = c
			}
		}
		if widest == nil {
			return
		}
		widest.width--
	}
}

func (w writer) columns(rows []Row, columns []textColumn) {
	rule := func(c textColumn) string { return strings.Repeat("-", c.width) }
	w.row(columns, true, func(c textColumn) string { return c.Name })
	w.row(columns, false, rule)
	for i, row := range rows {
		if row.Kind == Total && i > 0 && rows[i-1].Kind != Total {
			w.row(columns, false, rule)
		}
		if standsAlone(row) {
			w.hanging("", row.Cells[0])
			continue
		}
		w.row(columns, false, func(c textColumn) string { return c.cells[i] })
	}
}

// row writes cells side by side, aligned at the bottom in a heading and at the top in a row.
func (w writer) row(columns []textColumn, bottom bool, cell func(textColumn) string) {
	lines, height := make([][]string, len(columns)), 0
	for i, c := range columns {
		lines[i] = Wrap(cell(c), c.width)
		height = max(height, len(lines[i]))
	}
	for l := range height {
		parts := make([]string, len(columns))
		for i, c := range columns {
			at := l
			if bottom {
				at -= height - len(lines[i])
			}
			if at >= 0 && at < len(lines[i]) {
				parts[i] = lines[i][at]
			}
			if c.Number {
				parts[i] = screen.FillLeft(parts[i], c.width)
			} else {
				parts[i] = screen.FillRight(parts[i], c.width)
			}
		}
		w.line(strings.Join(parts, between))
	}
}

// Wrap breaks a text into lines of width columns, at blanks and inside longer words. All have the first one's indent.
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

//go:embed page.gohtml
var page string

// pages escapes all data by their context in the page, as html/template does.
var pages = template.Must(template.New("page").Funcs(template.FuncMap{
	"add":    func(x, y float64) float64 { return x + y },
	"id":     func(section string, block int) string { return fmt.Sprintf("%s-%d", section, block+1) },
	"colors": func() []int { return []int{1, 2, 3, 4, 5, 6} },
	"bodies": bodies,
}).Parse(page))

// HTML writes the report as one self-contained page.
func (r *Report) HTML(out io.Writer) error { return pages.Execute(out, r) }

// bodies are the rows in groups: each heading with its items, the totals by themselves.
func bodies(t *Table) (groups [][]Row) {
	for i, row := range t.Rows {
		if i == 0 || row.Kind == Heading || row.Kind == Total && t.Rows[i-1].Kind != Total {
			groups = append(groups, nil)
		}
		last := &groups[len(groups)-1]
		*last = append(*last, row)
	}
	return groups
}
