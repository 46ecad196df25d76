package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/report"
)

// maxWidth of text: a terminal breaks longer lines, and a pager need not.
const maxWidth = 200

// write writes answers in a format of the command line: the answers to out, notices beside CSV to errors.
func write(format string, out, errors io.Writer, o report.Options, answers []report.Answer) error {
	switch format {
	case "json":
		return writeJSON(out, answers)
	case "csv":
		return writeCSV(out, errors, answers)
	case "html":
		return report.Lay(o, answers).HTML(out)
	}
	if len(answers) == 1 {
		answers[0].Name = ""
	}
	return report.Lay(o, answers).Text(out, maxWidth)
}

// writeJSON writes [{"refId", "status", "error"?, "frames": [data.Frame JSON]}] and no other text.
func writeJSON(out io.Writer, answers []report.Answer) error {
	type document struct {
		RefID  string         `json:"refId"`
		Status backend.Status `json:"status"`
		Error  string         `json:"error,omitempty"`
		Frames []*data.Frame  `json:"frames"`
	}
	documents := make([]document, len(answers))
	for i, a := range answers {
		documents[i] = document{RefID: a.Name, Status: a.Status, Frames: append([]*data.Frame{}, a.Frames...)} // not null
		if a.Error != nil {
			documents[i].Error = a.Error.Error()
		}
	}
	return json.NewEncoder(out).Encode(documents)
}

// writeCSV writes frames separated by an empty line, each with its field names, as a machine reads them: plain numbers,
// times in RFC 3339, nothing for null. Errors and notices go to errors.
func writeCSV(out, errors io.Writer, answers []report.Answer) error {
	first := true
	for _, a := range answers {
		if a.Error != nil {
			fmt.Fprintf(errors, "%s: %s\n", a.Name, report.Sentence(a.Error.Error()))
			continue
		}
		for _, frame := range a.Frames {
			for _, n := range report.Told(frame) {
				fmt.Fprintf(errors, "%s: %s: %s\n", a.Name, n.Severity, report.Sentence(n.Text))
			}
			if len(frame.Fields) == 0 {
				continue
			}
			if !first {
				fmt.Fprintln(out)
			}
			first = false
			if err := csv.NewWriter(out).WriteAll(csvRecords(frame)); err != nil {
				return err
			}
		}
	}
	return nil
}

// csvRecords are the names of the fields, and the rows.
func csvRecords(frame *data.Frame) [][]string {
	records := make([][]string, 1+frame.Fields[0].Len())
	for _, field := range frame.Fields {
		records[0] = append(records[0], harmless(csvName(field)))
		for row := range field.Len() {
			records[row+1] = append(records[row+1], csvCell(field, row))
		}
	}
	return records
}

// csvName names a series by its labels' values, or by its field if it has none.
func csvName(field *data.Field) string {
	if len(field.Labels) == 0 {
		return field.Name
	}
	var values []string
	for _, label := range slices.Sorted(maps.Keys(field.Labels)) {
		values = append(values, field.Labels[label])
	}
	return strings.Join(values, ", ")
}

func csvCell(field *data.Field, row int) string {
	value, ok := field.ConcreteAt(row)
	if !ok {
		return ""
	}
	switch v := value.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return harmless(v)
	}
	return fmt.Sprint(value)
}

// harmless puts an apostrophe before a text that a spreadsheet would take for a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
