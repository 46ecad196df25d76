package report

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Wrapping loses nothing, and no line is wider than the given width if a character fits.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("abc  \u00e9寬\U0001F600-=\u0301"))).Draw(t, "text")
		width := rapid.IntRange(2, 30).Draw(t, "width")
		indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
		if len(indent) > width-2 {
			t.Skip("no room beside the indent")
		}
		lines := Wrap(text, width)
		for _, line := range lines {
			require.LessOrEqual(t, screen.StringWidth(line), width)
		}
		require.Equal(t, strings.Join(strings.Fields(text), ""), strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	})
}

// A table has all its cells at any width, and no line is too wide unless one figure with its name is.
func TestTableKeepsItsCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 14).Draw(t, "columns")
		cell := rapid.StringOfN(rapid.RuneFrom([]rune("ab寬1.")), 1, 25, -1)
		table := &Table{}
		for i := range n {
			table.Columns = append(table.Columns, Column{Name: cell.Draw(t, "name"), Number: i > 0 &&
				rapid.Bool().Draw(t, "number")})
		}
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			row := Row{Kind: rapid.SampledFrom([]RowKind{Plain, Heading, Item, Total}).Draw(t, "kind")}
			for range n {
				row.Cells = append(row.Cells, cell.Draw(t, "cell"))
			}
			table.Rows = append(table.Rows, row)
		}
		width := rapid.IntRange(MinWidth, 120).Draw(t, "width")
		var b bytes.Buffer
		w := writer{bufio.NewWriter(&b), width}
		w.table(table)
		require.NoError(t, w.Flush())
		for _, line := range strings.Split(b.String(), "\n") {
			require.LessOrEqual(t, screen.StringWidth(line), width)
		}
		for i, c := range table.Columns {
			if !c.Number {
				continue
			}
			for _, row := range table.Rows {
				require.Contains(t, b.String(), row.Cells[i], "figures are never broken")
			}
		}
	})
}

func TestTableOfOneWideLine(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "Machine"}, {Name: "GPUs", Number: true}, {Name: "Reason"}}, Rows: []Row{
		{Kind: Heading, Cells: []string{"Open Capacity"}},
		{Kind: Item, Cells: []string{"gpu2001.chtc.example.org", "1,234", strings.Repeat("maintenance of the machine ", 4)}},
		{Kind: Total, Cells: []string{"All", "1,234", ""}},
	}}
	var b bytes.Buffer
	w := writer{bufio.NewWriter(&b), 72}
	w.table(table)
	require.NoError(t, w.Flush())
	require.Equal(t, `Machine                      GPUs  Reason
--------------------------  -----  -------------------------------------
Open Capacity
  gpu2001.chtc.example.org  1,234  maintenance of the machine
                                   maintenance of the machine
                                   maintenance of the machine
                                   maintenance of the machine
--------------------------  -----  -------------------------------------
All                         1,234
`, b.String())
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"user@example.org":        "user@example.org",
		"=1+1":                    "'=1+1",
		"@a":                      "'@a",
		"a=b":                     "a=b",
		"a\tb\x00":                "a\uFFFDb\uFFFD",
		"\u202Eabc":               "\uFFFDabc",
		"\xff":                    "\uFFFD",
		"Zoë 寬 \u05D0":            "Zoë 寬 \u05D0",
		strings.Repeat("x", 100):  strings.Repeat("x", 100),
		strings.Repeat("é", 1001): strings.Repeat("é", 100) + "… (1,001 characters)",
	} {
		require.Equal(t, want, clean(text))
	}
}

func TestFigure(t *testing.T) {
	one := uint16(1)
	for _, c := range []struct {
		number   float64
		unit     string
		decimals *uint16
		want     string
	}{
		{0, "", nil, "0"}, {1234567, "short", nil, "1,234,567"}, {1234.56, "", &one, "1,234.6"},
		{-1234.5, "", &one, "-1,234.5"}, {0.125, "", nil, "0.12"},
		{95.83, "percent", &one, "95.8 %"}, {46, "h", nil, "46 h"}, {90, "s", nil, "90 s"}, {1500, "s", nil, "25 min"},
		{35901752, "s", nil, "415.5 days"}, {48 * 3600, "s", nil, "48 h"},
	} {
		require.Equal(t, c.want, figure(c.number, c.unit, c.decimals))
	}
}
