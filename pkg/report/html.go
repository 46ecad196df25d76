package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

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
