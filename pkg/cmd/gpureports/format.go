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

// writers write answers in the formats of the command line: the answers to out, their notices to err.
var writers = map[string]func(out, err io.Writer, o report.Options, answers []report.Answer) error{
	"json":  writeJSON,
	"csv":   writeCSV,
	"table": writeText,
	"html":  writeHTML,
}

// writeJSON writes [{"refId", "status", "error"?, "frames": [data.Frame JSON]}] and no other text.
func writeJSON(out, _ io.Writer, _ report.Options, answers []report.Answer) error {
	type document struct {
		RefID  string         `json:"refId"`
		Status backend.Status `json:"status"`
		Error  string         `json:"error,omitempty"`
		Frames []*data.Frame  `json:"frames"`
	}
	documents := make([]document, len(answers))
	for i, a := range answers {
		documents[i] = document{RefID: a.Name, Status: a.Status, Frames: a.Frames}
		if a.Error != nil {
			documents[i].Error = a.Error.Error()
		}
		if a.Frames == nil {
			documents[i].Frames = []*data.Frame{}
		}
	}
	text, err := json.Marshal(documents)
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// maxWidth of text: a terminal breaks longer lines, and a pager need not.
const maxWidth = 200

func writeText(out, _ io.Writer, o report.Options, answers []report.Answer) error {
	if len(answers) == 1 {
		answers[0].Name = ""
	}
	return report.Lay(o, answers).Text(out, maxWidth)
}

func writeHTML(out, _ io.Writer, o report.Options, answers []report.Answer) error {
	return report.Lay(o, answers).HTML(out)
}

// writeCSV writes frames separated by an empty line, each with its field names, as a machine reads them: plain numbers,
// times in RFC 3339, nothing for null. Errors and notices go to err.
func writeCSV(out, err io.Writer, _ report.Options, answers []report.Answer) error {
	first := true
	for _, a := range answers {
		if a.Error != nil {
			fmt.Fprintf(err, "%s: %s\n", a.Name, report.Sentence(a.Error.Error()))
			continue
		}
		for _, frame := range a.Frames {
			if frame.Meta != nil {
				for _, n := range frame.Meta.Notices {
					fmt.Fprintf(err, "%s: %s: %s\n", a.Name, n.Severity, report.Sentence(n.Text))
				}
			}
			if len(frame.Fields) == 0 {
				continue
			}
			if !first {
				fmt.Fprintln(out)
			}
			first = false
			if e := writeFrame(csv.NewWriter(out), frame); e != nil {
				return e
			}
		}
	}
	return nil
}

func writeFrame(w *csv.Writer, frame *data.Frame) error {
	record := make([]string, len(frame.Fields))
	for i, field := range frame.Fields {
		record[i] = harmless(csvName(field))
	}
	if err := w.Write(record); err != nil {
		return err
	}
	for row := range frame.Fields[0].Len() {
		for i, field := range frame.Fields {
			record[i] = csvCell(field, row)
		}
		if err := w.Write(record); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
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
