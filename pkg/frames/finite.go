package frames

import (
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// leaveOutOdd makes an answer storable as JSON, which has no NaN and no infinity: such a value, a ratio of nothing to
// nothing for instance, is null, and a statistic without a value is left out. Otherwise one such value would cost the
// answers to all queries of a request.
func leaveOutOdd(all data.Frames) {
	for _, frame := range all {
		frame.Meta.Stats = slices.DeleteFunc(frame.Meta.Stats, func(s data.QueryStat) bool { return !finite(s.Value) })
		for i, field := range frame.Fields {
			switch field.Type() {
			case data.FieldTypeFloat64:
				frame.Fields[i] = nullable(field)
			case data.FieldTypeNullableFloat64:
				for row := range field.Len() {
					if value := field.PointerAt(row).(**float64); *value != nil && !finite(**value) {
						*value = nil
					}
				}
			}
		}
	}
}

// nullable returns a field of numbers, with nulls for values that are not finite.
func nullable(field *data.Field) *data.Field {
	odd, values := false, make([]*float64, field.Len())
	for row := range values {
		if value := field.PointerAt(row).(*float64); finite(*value) {
			values[row] = value
		} else {
			odd = true
		}
	}
	if !odd {
		return field
	}
	of := data.NewField(field.Name, field.Labels, values)
	of.Config = field.Config
	return of
}
