package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
)

// none is the text for a missing figure.
const none = "-"

// How many characters of a name, and of a sentence that may hold names, are shown.
const (
	longestName     = 100
	longestSentence = 1000
)

// clean makes a name of the data harmless: control characters and marks of the direction of writing become visible,
// what a spreadsheet would take for a formula is quoted, and a name that would fill the page is cut, with its length.
func clean(name string) string {
	name = visible(name)
	if name != "" && strings.ContainsRune("=+-@", rune(name[0])) {
		name = "'" + name
	}
	return cut(name, longestName)
}

// Sentence does the same with a text of the data source.
func Sentence(text string) string { return cut(visible(text), longestSentence) }

func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

func cut(text string, longest int) string {
	runes := []rune(text)
	if len(runes) <= longest {
		return text
	}
	return fmt.Sprintf("%s… (%s characters)", string(runes[:longest]), frames.Thousands(len(runes)))
}

// withUnit returns a column's name with its unit, if the name does not contain it.
func withUnit(name, unit string) string {
	switch {
	case unit == "h" && !strings.Contains(strings.ToLower(name), "hours"):
		return name + " (h)"
	case unit == "decgbytes":
		return name + " (GB)"
	case unit == "percent" && !strings.Contains(name, "%"):
		return name + " (%)"
	}
	return name
}

// config is how a field is shown.
func config(field *data.Field) *data.FieldConfig { return cmp.Or(field.Config, &data.FieldConfig{}) }

func displayName(field *data.Field) string {
	c := config(field)
	return clean(cmp.Or(c.DisplayName, c.DisplayNameFromDS, field.Name))
}

func unitOf(field *data.Field) string { return config(field).Unit }

func isTime(field *data.Field) bool { return field.Type().NonNullableType() == data.FieldTypeTime }

// isNumber reports whether a field's values are figures, not numbers that are shown as words.
func isNumber(field *data.Field) bool { return field.Type().Numeric() && words(field) == nil }

// words are the texts that a field's values are shown as, nil if there are none.
func words(field *data.Field) data.ValueMapper {
	if unitOf(field) != "" { // numbers, whose unit is in the heading
		return nil
	}
	for _, m := range config(field).Mappings {
		if texts, ok := m.(data.ValueMapper); ok {
			return texts
		}
	}
	return nil
}

// cell is a value as a column shows it: the unit is in the heading.
func (o Options) cell(field *data.Field, row int) string {
	return strings.TrimSuffix(o.value(field, row), units[unitOf(field)])
}

// value is a field's value with its unit.
func (o Options) value(field *data.Field, row int) string {
	v, ok := field.ConcreteAt(row)
	switch {
	case !ok || v == nil:
		return none
	case isTime(field):
		return o.time(v.(time.Time))
	case words(field) != nil:
		if word, ok := words(field)[fmt.Sprint(v)]; ok {
			return clean(word.Text)
		}
	case isNumber(field):
		n := number(field, row)
		if math.IsNaN(n) {
			return none
		}
		return figure(n, unitOf(field), config(field).Decimals)
	}
	return clean(fmt.Sprint(v))
}

// units are the units that are written behind numbers.
var units = map[string]string{"percent": " %", "h": " h", "GPU h": " GPU h"}

// figure writes a number with its unit.
func figure(number float64, unit string, decimals *uint16) string {
	if unit == "s" {
		return duration(time.Duration(number * float64(time.Second)))
	}
	digits := 0
	if decimals != nil {
		digits = int(*decimals)
	} else if number != math.Trunc(number) {
		digits = 2
	}
	return frames.Thousands(strconv.FormatFloat(number, 'f', digits, 64)) + units[unit]
}

// duration writes a length of time in the unit that fits: 48 h, 12 min.
func duration(d time.Duration) string {
	with := func(value float64, unit string) string {
		return frames.Thousands(strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0")) + " " + unit
	}
	switch {
	case d < 2*time.Minute:
		return with(d.Seconds(), "s")
	case d < 2*time.Hour:
		return with(d.Minutes(), "min")
	case d <= 48*time.Hour:
		return with(d.Hours(), "h")
	}
	return with(d.Hours()/24, "days")
}

// time writes a time in the report's zone.
func (o Options) time(t time.Time) string {
	t = t.In(o.Zone)
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.Format("2006-01-02 15:04")
	}
	return t.Format(time.DateTime)
}

// window is the period of the report.
func (o Options) window() string {
	return o.time(o.From) + " to " + o.time(o.To) + " " + o.Zone.String() + " (" + duration(o.To.Sub(o.From)) + ")"
}

// record is a row of a frame, whose values are found by the names of fields.
type record struct {
	*data.Frame
	row int
}

// records are the rows of frames.
func records(frames data.Frames) (all []record) {
	for _, frame := range frames {
		for row := range frame.Rows() {
			all = append(all, record{frame, row})
		}
	}
	return all
}

// field is the field of a name, nil if there is none.
func (r record) field(name string) *data.Field {
	field, _ := r.FieldByName(name)
	return field
}

// text is a stored text, "" if there is none.
func (r record) text(name string) string {
	field := r.field(name)
	if field == nil {
		return ""
	}
	v, _ := field.ConcreteAt(r.row)
	s, _ := v.(string)
	return s
}

// number is a number, NaN if there is none.
func (r record) number(name string) float64 { return number(r.field(name), r.row) }

// number is a field's number, NaN if there is none.
func number(field *data.Field, row int) float64 {
	if field != nil {
		if n, err := field.FloatAt(row); err == nil {
			return n
		}
	}
	return math.NaN()
}
