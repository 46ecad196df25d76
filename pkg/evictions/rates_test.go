package evictions_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// gpuHoursOf adds the listed runs' GPU-hours and evictions up, by the cells that they are counted in.
func gpuHoursOf(rows []map[string]any, w pool.Window, cellsOf func(map[string]any, pool.Micros) string,
	step pool.Micros) (hours map[string]float64, evictions map[string]int) {
	hours, evictions = map[string]float64{}, map[string]int{}
	for _, r := range rows {
		start, end := r["start"].(time.Time).UnixMicro(), r["end"].(time.Time).UnixMicro()
		for at := max(start, w.From); at < end; {
			next := min(end, (at/step+1)*step)
			hours[cellsOf(r, at)] += pool.Hours(next-at) * r["gpus"].(float64)
			at = next
		}
		if r["outcome"] == "evicted" {
			evictions[cellsOf(r, end)]++
		}
	}
	return hours, evictions
}

// Rates that rest on too few GPU-hours are counted: in tables, series and heat maps.
func TestRatesLeftOut(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "UTC")
	source := runstest.Sources(t, "pool-b", "both")[0]
	w := golden.Window(t, "2025-11-01T12:00:00Z", "2025-11-01T13:59:59.999999Z")
	list := golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "view": "runs", "limit": 50000}`))
	require.NotEmpty(t, list)
	hour := func(at pool.Micros) string { return fmt.Sprint(pool.Time(at).Hour()) }
	machine := func(r map[string]any) string { return r["machine"].(string) }
	for text, cellsOf := range map[string]func(map[string]any, pool.Micros) string{
		`"view": "summary", "groupBy": ["machine"]`: func(r map[string]any, _ pool.Micros) string { return machine(r) },
		`"view": "summary", "groupBy": ["machine"], "metrics": ["rateHigh", "runs"]`: func(r map[string]any,
			_ pool.Micros) string {
			return machine(r)
		},
		`"view": "timeseries", "groupBy": ["machine"], "bucket": "1h", "metrics": ["ratePer100GpuHours", "runs"]`: func(
			r map[string]any, at pool.Micros) string {
			return machine(r) + hour(at)
		},
		`"view": "hourOfWeek", "metrics": ["ratePer100GpuHours"], "filter": {"machines": ["` + fewHours(list) + `"]}`: func(
			r map[string]any, at pool.Micros) string {
			if machine(r) == fewHours(list) {
				return hour(at)
			}
			return ""
		},
	} {
		hours, evictions := gpuHoursOf(list, w, cellsOf, pool.Hour)
		all, few := 0, 0
		for cell, h := range hours {
			if cell != "" && (h > 0 || evictions[cell] > 0) {
				all++
				if h < 1-1e-9 {
					few++
				}
			}
		}
		require.Positive(t, few, text)
		frames := s.Ask(t, source, w, `{"queryType": "evictions", `+text+`}`)
		require.Contains(t, golden.Told(frames),
			fmt.Sprintf("%d of %d eviction rates rest on less than 1 GPU hour and have no value", few, all), text)
	}
	for _, text := range []string{`"view": "summary", "groupBy": []`, `"view": "summary", "groupBy": ["machine"], "metrics": ["runs"]`,
		`"view": "timeseries", "groupBy": ["machine"], "bucket": "1h", "metrics": ["evictions"]`,
		`"view": "hourOfWeek", "metrics": ["evictions"]`} {
		require.NotContains(t, golden.Told(s.Ask(t, source, w, `{"queryType": "evictions", `+text+`}`)), "eviction rates", text)
	}
}

// fewHours is the machine that has runs and the fewest GPU-hours.
func fewHours(list []map[string]any) (name string) {
	hours, _ := gpuHoursOf(list, pool.Window{From: math.MinInt64 / 2}, func(r map[string]any, _ pool.Micros) string {
		return r["machine"].(string)
	}, pool.Day)
	least := math.Inf(1)
	for machine, h := range hours {
		if h > 0 && (h < least || h == least && machine < name) {
			name, least = machine, h
		}
	}
	return name
}
