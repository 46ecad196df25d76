package demand

import (
	"context"
	"fmt"
	"slices"
	"unsafe"
	"weak"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Waits made of polls and snapshots alone are remembered as long as these stay the same: the panels of a dashboard
// share them, also where their windows differ a little.

// memoKey names waits by the observed snapshots and the UTC day from which on rows were taken.
type memoKey struct {
	observed weak.Pointer[runs.Observed]
	from     int32
}

// remembered are waits, and the rows that they were made from.
type remembered struct {
	days  []*pressure.Day
	waits []Wait
}

// Bytes is the live memory of the waits; the rows are those of the queues.
func (r *remembered) Bytes() int {
	return len(r.waits)*int(unsafe.Sizeof(Wait{})) + len(r.days)*8 + 200
}

// waitsAlone makes the waits that a window needs, and maybe more, of rows and runs.
func waitsAlone(ctx context.Context, memo *stores.Memo, o *runs.Observed, rows *pressure.View, polls *Polls,
	w pool.Window) ([]Wait, error) {
	day := pool.DayOf(since(polls, w))
	key := memoKey{weak.Make(o), day}
	if known, _ := memo.Recall(key).(*remembered); known != nil && slices.Equal(known.days, rows.Days) {
		return known.waits, nil
	}
	queued := rowsByJob(rows, pool.Micros(day)*pool.Day)
	wanted := wantedJobs(o, queued, rows, w, false)
	x, err := o.Explain(ctx, nil, func(m, r int) bool { return wanted[o.Machines[m].Runs[r].Job] })
	if err != nil {
		return nil, fmt.Errorf("explaining runs: %w", err)
	}
	known, _ := runsByJob(o, x, nil)
	waits := waitsOfAll(polls, queued, known, rows, false)
	memo.Keep(key, &remembered{rows.Days, waits})
	return waits, nil
}
