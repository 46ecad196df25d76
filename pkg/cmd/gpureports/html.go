package main

import (
	"html/template"
	"io"
)

// writeHTML writes one page with all tables. Everything that comes from the data is escaped by html/template.
func writeHTML(out, _ io.Writer, answers []answer) error {
	type section struct {
		RefID, Error string
		Grids        []grid
	}
	sections := make([]section, len(answers))
	for i, a := range answers {
		sections[i] = section{RefID: a.RefID}
		if a.Error != nil {
			sections[i].Error = a.Error.Error()
		} else {
			sections[i].Grids = grids(a)
		}
	}
	return page.Execute(out, sections)
}

// The template's view of a grid.
func (g grid) Title() string      { return clean(g.title) }
func (g grid) Columns() []column  { return g.columns }
func (g grid) Rows() []gridRow    { return g.rows }
func (c column) Name() string     { return c.name }
func (c column) Number() bool     { return c.number }
func (r gridRow) Kind() string    { return r.kind }
func (r gridRow) Cells() []string { return r.cells }
func (g grid) Notices() []string {
	texts := make([]string, len(g.notices))
	for i, n := range g.notices {
		texts[i] = noticeText(n)
	}
	return texts
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>GPU reports</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem; }
table { border-collapse: collapse; margin: .5rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: bottom; border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.total td, .group td { font-weight: 600; }
.error { color: light-dark(#b00020, #ff8a80); }
ul { margin: 0 0 1.5rem; padding-left: 1.2rem; }
</style>
</head>
<body>
{{- range .}}
<section>
<h2>{{.RefID}}</h2>
{{- with .Error}}
<p class="error">{{.}}</p>
{{- end}}
{{- range .Grids}}
{{- $columns := .Columns}}
{{- if .Rows}}
<table>
{{- with .Title}}
<caption>{{.}}</caption>
{{- end}}
<thead><tr>{{range .Columns}}<th scope="col"{{if .Number}} class="number"{{end}}>{{.Name}}</th>{{end}}</tr></thead>
<tbody>
{{- range .Rows}}
<tr{{with .Kind}} class="{{.}}"{{end}}>{{range $i, $cell := .Cells}}<td{{if (index $columns $i).Number}} class="number"{{end}}>{{$cell}}</td>{{end}}</tr>
{{- end}}
</tbody>
</table>
{{- else}}
<p>No data.</p>
{{- end}}
{{- with .Notices}}
<ul>{{range .}}<li>{{.}}</li>{{end}}</ul>
{{- end}}
{{- end}}
</section>
{{- end}}
</body>
</html>
`))
