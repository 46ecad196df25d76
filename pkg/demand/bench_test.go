package demand

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// A month of 200,000 rows, polled every half hour, thousands of jobs waiting at a time.
func monthOfRows() *queues.View {
	const n, days, first = 200_000, 30, 1_759_276_800
	v := &queues.View{Names: timeline.NewNames(), Requests: [][]queues.Request{{{GPUs: 1}, {GPUs: 1, GPUMemory: 40000},
		{GPUs: 2}, {GPUs: 4, GPUMemory: 80000}, {GPUs: 8}}}}
	for d := range days {
		day := &queues.Day{Date: int32(first/86400 + d)}
		for poll := range 48 {
			day.Times = append(day.Times, uint32(first+d*86400+poll*1800))
		}
		for i := range n / days {
			at := uint32(first + d*86400 + i*48/(n/days)*1800)
			r := queues.Row{Job: v.Names.Job(fmt.Sprintf("ap1#%d.%d#%d", 1000+i/10, i%10, first+d)),
				Owner: timeline.Symbol(i % 200), Request: uint32(i % 5), QDate: at - 600, First: at}
			r.Last = min(r.First+uint32(i%40)*1800, first+days*86400-1800)
			day.Rows, day.Last = append(day.Rows, r), max(day.Last, r.Last)
		}
		v.Days = append(v.Days, day)
	}
	return v
}

func BenchmarkMonth(b *testing.B) {
	v := monthOfRows()
	w := pool.Window{From: pool.Micros(v.Days[0].Date) * pool.Day, To: pool.Micros(v.Days[29].Date+1) * pool.Day}
	var p *Polls
	var waits []Wait
	b.Run("polls", func(b *testing.B) {
		for b.Loop() {
			p = NewPolls(v.Days)
		}
	})
	b.Run("waits", func(b *testing.B) {
		for b.Loop() {
			waits = waits[:0]
			for _, rows := range rowsByJob(v, since(p, w)) {
				waits = append(waits, waitsOf(p, rows.idle, nil, v.Requests, false)...)
			}
		}
	})
	b.Run("measures", func(b *testing.B) {
		for b.Loop() {
			var s Sums
			var all []*Wait
			for i := range waits {
				s.add(&waits[i], w, p.Times[len(p.Times)-1])
				all = append(all, &waits[i])
			}
			CohortOf(all, w).KaplanMeier().HoursTo(0.5)
		}
	})
	var starts []pool.Micros
	for t := w.From; t <= w.To; t += pool.Hour {
		starts = append(starts, t)
	}
	b.Run("averages", func(b *testing.B) {
		for b.Loop() {
			c, points := newClock(starts, w, p.coveredUntil), make([]Sums, len(starts)-1)
			for i := range waits {
				for bucket, covered := range c.parts(waits[i].Counted, waits[i].End) {
					points[bucket].Jobs += covered
				}
			}
		}
	})
	wishes := wishesOf(waits)
	b.Run("line", func(b *testing.B) {
		for b.Loop() {
			lineOf(waits, p, v.Names, 0, len(p.Times)-1)
		}
	})
	var waiting []int32
	for i, s := range lineOf(waits, p, v.Names, 0, len(p.Times)-1) {
		if i%10 == 0 {
			waiting = append(waiting, s.wait)
		}
	}
	b.Run("free", func(b *testing.B) {
		for b.Loop() {
			for range p.Times {
				sizes := slices.Concat(slices.Repeat([]float64{20000}, 20), slices.Repeat([]float64{40000}, 20))
				require.NotEmpty(b, wishes.serve(sizes, waiting))
			}
		}
	})
}
