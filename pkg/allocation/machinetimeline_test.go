package allocation_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// For more than 500 GPUs the state timeline shows devices and machines, with the states of all their GPUs.
func TestStateTimelineByMachine(t *testing.T) {
	o := samplepool.Default()
	o.Machines, o.GPUs, o.Timezone, o.Drains, o.Prevented, o.MachineDown = 100, 560, "UTC", 30, 30, 30
	o.End = o.Start.Add(20 * time.Hour)
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteSnapshots(context.Background(), dir))
	s := open(t, dir, "UTC", 15)
	w := pool.Window{From: o.Start.Add(70 * time.Minute).UnixMicro(), To: o.End.UnixMicro()}

	one := s.Ask(t, nil, w, `{"queryType": "allocation", "view": "stateTimeline", "limit": 50000}`)
	require.Greater(t, len(one), 500)
	require.False(t, hasNotice(one, "GPUs are more than"))
	require.Len(t, s.Ask(t, nil, w, `{"queryType": "allocation", "view": "stateTimeline", "limit": 7}`), 7, "a cut, as asked")
	gpus := map[string][]*data.Frame{}
	for _, f := range one {
		labels := f.Fields[1].Labels
		name := labels["device"] + " · " + labels["machine"]
		gpus[name] = append(gpus[name], f)
	}
	frames := s.Ask(t, nil, w, `{"queryType": "allocation", "view": "stateTimeline", "bucket": "1h"}`)
	require.True(t, hasNotice(frames, fmt.Sprintf("%d GPUs are more than the 500", len(one))))
	var names []string
	partly, unknown := 0, 0
	for _, f := range frames {
		name := f.Fields[1].Config.DisplayNameFromDS
		names = append(names, name)
		for b := w.From / pool.Hour * pool.Hour; b < w.To; b += pool.Hour {
			want, known := sharesOf(gpus[name], max(b, w.From), min(b+pool.Hour, w.To))
			row, found := slices.BinarySearchFunc(slices.Collect(each(f)), b,
				func(at, b pool.Micros) int { return int(at - b) })
			if row--; found {
				row++
			}
			state, there := any(nil), false
			if row >= 0 {
				state, there = f.Fields[1].ConcreteAt(row)
			}
			require.Equal(t, known, there, "%s at %v", name, pool.Time(b))
			if !known {
				unknown++
				continue
			}
			most := 0.0
			for _, field := range f.Fields[2:] {
				share, _ := field.ConcreteAt(row)
				require.InDelta(t, want[stateNumbers[field.Name]], share, 1e-9, "%s %s at %v", name, field.Name, pool.Time(b))
				most = max(most, share.(float64))
			}
			number := state.(int8)
			require.Equal(t, most < 100, number >= 10)
			require.InDelta(t, most, want[float64(number%10)], 1e-9)
			if most < 100 {
				partly++
			}
		}
	}
	require.Greater(t, partly, 100)
	require.Positive(t, unknown)
	require.ElementsMatch(t, slices.Collect(maps.Keys(gpus)), names)
	require.True(t, slices.IsSortedFunc(frames, func(a, b *data.Frame) int {
		x, y := a.Fields[1].Labels, b.Fields[1].Labels
		return cmp.Or(query.CompareValues("device", x["device"], y["device"]), cmp.Compare(x["machine"], y["machine"]))
	}), "devices in a row")
}

var stateNumbers = map[string]float64{"Free": 0, "Claimed": 1, "Backfill": 2, "Drained": 3, "Prevented": 4, "Other": 5}

// each yields the times of a frame.
func each(f *data.Frame) func(func(pool.Micros) bool) {
	return func(yield func(pool.Micros) bool) {
		for i := range f.Fields[0].Len() {
			if !yield(f.Fields[0].At(i).(time.Time).UnixMicro()) {
				return
			}
		}
	}
}

// sharesOf walks from change to change of any of the GPUs, and adds up what each of them is in, in percent by number.
func sharesOf(gpus []*data.Frame, from, to pool.Micros) (map[float64]float64, bool) {
	steps := map[pool.Micros]bool{from: true, to: true}
	for _, f := range gpus {
		for at := range each(f) {
			if from < at && at < to {
				steps[at] = true
			}
		}
	}
	times := slices.Sorted(maps.Keys(steps))
	shares, all := map[float64]float64{}, 0.0
	for i := range len(times) - 1 {
		for _, f := range gpus {
			state := any(nil)
			for k := range f.Fields[0].Len() {
				if f.Fields[0].At(k).(time.Time).UnixMicro() <= times[i] {
					state, _ = f.Fields[1].ConcreteAt(k)
					if f.Fields[1].NilAt(k) {
						state = nil
					}
				}
			}
			if state != nil {
				shares[float64(state.(int8))] += float64(times[i+1] - times[i])
				all += float64(times[i+1] - times[i])
			}
		}
	}
	for state := range shares {
		shares[state] *= 100 / all
	}
	return shares, all > 0
}
