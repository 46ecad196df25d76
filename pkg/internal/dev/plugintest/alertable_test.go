package plugintest

import (
	"math"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
)

func frame(kind data.FrameType, fields ...*data.Field) *data.Frame {
	f := data.NewFrame("", fields...)
	f.Meta = &data.FrameMeta{Type: kind, TypeVersion: data.FrameTypeVersion{0, 1}}
	return f
}

func at(hours ...int) *data.Field {
	var times []time.Time
	for _, h := range hours {
		times = append(times, time.Unix(int64(h)*3600, 0))
	}
	return data.NewField("time", nil, times)
}

var (
	multi = data.FrameTypeTimeSeriesMulti
	long  = data.FrameTypeNumericLong
	nan   = math.NaN()
	a, b  = data.Labels{"device": "A"}, data.Labels{"device": "B"}
)

func TestNotAlertable(t *testing.T) {
	untyped := data.NewFrame("", at(1), data.NewField("x", a, []float64{3}))
	unversioned := frame(multi, at(1), data.NewField("x", a, []float64{3}))
	unversioned.Meta.TypeVersion = data.FrameTypeVersion{}
	three := 3.0
	for words, frames := range map[string]data.Frames{
		"no frame":     {},
		"no metadata":  {untyped},
		"version":      {unversioned},
		"cannot alert": {frame(data.FrameTypeTable, data.NewField("x", nil, []float64{3}))},
		"types": {frame(multi, at(1), data.NewField("x", a, []float64{3})),
			frame(long, data.NewField("x", b, []float64{3}))},
		"no data beside data": {frame(multi, at(1), data.NewField("x", a, []float64{3})), frame(multi)},
		"duplicate": {frame(multi, at(1), data.NewField("x", a, []float64{3})),
			frame(multi, at(1), data.NewField("y", a, []float64{3}))},
		"not ascend":     {frame(multi, at(2, 2), data.NewField("x", a, []float64{3, 4}))},
		"without points": {frame(multi, at(), data.NewField("x", a, []float64{}))},
		"null":           {frame(multi, at(1, 2), data.NewField("x", a, []*float64{&three, nil}))},
		"NaN":            {frame(multi, at(1), data.NewField("x", a, []float64{nan}))},
		"one number": {frame(multi, at(1), data.NewField("x", a, []float64{3}),
			data.NewField("y", b, []float64{3}))},
		"duplicate results": {frame(long, data.NewField("device", nil, []string{"A", "A"}),
			data.NewField("x", nil, []float64{3, 4}))},
		"texts and one": {frame(long, data.NewField("device", nil, []string{"A"}),
			data.NewField("x", nil, []float64{3}), data.NewField("y", nil, []float64{3}))},
		"rowType": {frame(long, data.NewField("rowType", nil, []string{"row"}),
			data.NewField("x", nil, []float64{3}))},
		"no number": {frame(long, data.NewField("device", nil, []string{"A"}))},
	} {
		_, err := Alertable(frames)
		require.ErrorContains(t, err, words)
	}
}
