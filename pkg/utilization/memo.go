package utilization

import (
	"unsafe"
	"weak"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// What a run's GPUs did is remembered as long as the history of the runs is kept, if the run lies in the window as a
// whole: then it does not depend on the window, and only runs at its two ends are traced when it moves.

// memoKey names the runs of a machine, and the buckets of a series.
type memoKey struct {
	history weak.Pointer[runs.Explanations]
	machine int32
	buckets string
}

// remembered are the figures of a machine's runs, by their number; nil if they are not remembered.
type remembered []*figures

// Bytes is about the live memory.
func (r remembered) Bytes() int {
	n := 200 + 8*len(r)
	for _, f := range r {
		if f != nil {
			n += int(unsafe.Sizeof(*f)) + cap(f.buckets)*int(unsafe.Sizeof(bucketAmount{}))
		}
	}
	return n
}

// bucketsOf names the buckets of a plan.
func bucketsOf(p *query.Plan) string {
	switch {
	case p.Frame == query.FrameHeatMap:
		return "hours " + p.Location.String()
	case p.Frame != query.FrameSeries:
		return ""
	case p.Bucket == nil:
		return "window"
	}
	return pool.Key(p.Bucket.Name, p.Bucket.YearStart, p.Location.String())
}
