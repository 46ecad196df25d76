// Package plugintest helps tests of the plugin's answers. Only tests import it.
package plugintest

import (
	"fmt"
	"math"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// Value is what an alert rule sees of one label set: the points of a series in the order of time, or one number.
type Value struct {
	Labels data.Labels
	Points []float64
}

// Alertable checks an answer against the requirements of Grafana's alert engine, and returns the values that a rule
// sees, by label set. No data, the answer without a field, is an empty map. The engine would take some answers that are
// refused here and make something else of them: a null makes a strict mean NaN, a NaN condition alerts, a series
// without points is no "no data".
func Alertable(frames data.Frames) (map[string]Value, error) {
	if len(frames) == 0 {
		return nil, fmt.Errorf("no frame: not even one that says that there is no data")
	}
	values := map[string]Value{}
	for i, frame := range frames {
		if err := typed(frame, frames[0]); err != nil {
			return nil, fmt.Errorf("frame %d (%s): %w", i, frame.Name, err)
		}
		if len(frame.Fields) == 0 {
			if len(frames) > 1 {
				return nil, fmt.Errorf("frame %d: no data beside data", i)
			}
			return values, nil
		}
		if _, err := frame.RowLen(); err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
		read := numbers
		if frame.Meta.Type == data.FrameTypeTimeSeriesMulti {
			read = series
		}
		found, err := read(frame)
		if err != nil {
			return nil, fmt.Errorf("frame %d (%s): %w", i, frame.Name, err)
		}
		for _, v := range found {
			key := v.Labels.String()
			if _, twice := values[key]; twice {
				return nil, fmt.Errorf("duplicate results with labels {%s}", key)
			}
			values[key] = v
		}
	}
	return values, nil
}

// typed checks type and version: without the version the engine ignores the type.
func typed(frame, first *data.Frame) error {
	switch meta := frame.Meta; {
	case meta == nil:
		return fmt.Errorf("no metadata")
	case meta.Type != data.FrameTypeTimeSeriesMulti && meta.Type != data.FrameTypeNumericLong:
		return fmt.Errorf("type %q cannot alert", meta.Type)
	case meta.TypeVersion != data.FrameTypeVersion{0, 1}:
		return fmt.Errorf("version %v of type %s", meta.TypeVersion, meta.Type)
	case meta.Type != first.Meta.Type:
		return fmt.Errorf("types %s and %s in one answer", first.Meta.Type, meta.Type)
	}
	return nil
}

// series reads a frame of a time series: a time, ascending, and one number.
func series(frame *data.Frame) ([]Value, error) {
	if len(frame.Fields) != 2 || frame.Fields[0].Type() != data.FieldTypeTime || !frame.Fields[1].Type().Numeric() {
		return nil, fmt.Errorf("want a time and one number")
	}
	times, value := frame.Fields[0], frame.Fields[1]
	if times.Len() == 0 {
		return nil, fmt.Errorf("a series without points reduces to NaN, not to no data")
	}
	v := Value{Labels: value.Labels}
	for row := range times.Len() {
		if row > 0 && !times.At(row).(time.Time).After(times.At(row-1).(time.Time)) {
			return nil, fmt.Errorf("row %d: time does not ascend", row)
		}
		x, err := finite(value, row)
		if err != nil {
			return nil, err
		}
		v.Points = append(v.Points, x)
	}
	return []Value{v}, nil
}

// numbers reads a table of one number: each row's texts are its labels.
func numbers(frame *data.Frame) ([]Value, error) {
	var number *data.Field
	for _, field := range frame.Fields {
		switch {
		case field.Type() == data.FieldTypeString && field.Name != "rowType":
		case field.Type().Numeric() && number == nil:
			number = field
		default:
			return nil, fmt.Errorf("field %s of type %s: want texts and one number", field.Name, field.Type())
		}
	}
	if number == nil || number.Len() == 0 {
		return nil, fmt.Errorf("no number")
	}
	var values []Value
	for row := range number.Len() {
		x, err := finite(number, row)
		if err != nil {
			return nil, err
		}
		v := Value{Labels: data.Labels{}, Points: []float64{x}}
		for _, field := range frame.Fields {
			if field != number {
				v.Labels[field.Name] = field.At(row).(string)
			}
		}
		values = append(values, v)
	}
	return values, nil
}

func finite(field *data.Field, row int) (float64, error) {
	if value, ok := field.ConcreteAt(row); !ok || value == nil {
		return 0, fmt.Errorf("row %d: null", row)
	}
	x, err := field.FloatAt(row)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = fmt.Errorf("row %d: %v", row, x)
	}
	return x, err
}
