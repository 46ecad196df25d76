package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// writers write answers in the formats of the command line: the answers to out, what is said about them to err.
var writers = map[string]func(out, err io.Writer, answers []answer) error{
	"json":  writeJSON,
	"csv":   writeCSV,
	"table": writeText,
	"html":  writeHTML,
}

// writeJSON writes [{"refId", "status", "error"?, "frames": [data.Frame JSON]}] and nothing else.
func writeJSON(out, _ io.Writer, answers []answer) error {
	type document struct {
		RefID  string         `json:"refId"`
		Status backend.Status `json:"status"`
		Error  string         `json:"error,omitempty"`
		Frames []*data.Frame  `json:"frames"`
	}
	documents := make([]document, len(answers))
	for i, a := range answers {
		documents[i] = document{RefID: a.RefID, Status: a.Status, Frames: a.Frames}
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

// writeCSV writes frames separated by an empty line, each with its field names, as a machine reads them: plain numbers,
// times in RFC 3339, nothing for null. Errors and notices go to err.
func writeCSV(out, err io.Writer, answers []answer) error {
	first := true
	for _, a := range answers {
		if a.Error != nil {
			fmt.Fprintf(err, "%s: %v\n", a.RefID, a.Error)
			continue
		}
		for _, frame := range a.Frames {
			writeNotices(err, a.RefID+": ", frame)
			if len(frame.Fields) == 0 {
				continue
			}
			if !first {
				fmt.Fprintln(out)
			}
			first = false
			w := csv.NewWriter(out)
			record := make([]string, len(frame.Fields))
			for i, field := range frame.Fields {
				record[i] = seriesName(field)
			}
			if e := w.Write(record); e != nil {
				return e
			}
			for row := range rows(frame) {
				for i, field := range frame.Fields {
					record[i] = csvCell(field, row)
				}
				if e := w.Write(record); e != nil {
					return e
				}
			}
			w.Flush()
			if e := w.Error(); e != nil {
				return e
			}
		}
	}
	return nil
}

// csvCell is a value as plain, with an apostrophe before a text that a spreadsheet would take for a formula.
func csvCell(field *data.Field, row int) string {
	text := plain(field, row)
	if isText := field.Type().NonNullableType() == data.FieldTypeString; isText && text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func rows(frame *data.Frame) int {
	if len(frame.Fields) == 0 {
		return 0
	}
	return frame.Fields[0].Len()
}
