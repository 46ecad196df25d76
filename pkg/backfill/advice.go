package backfill

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
)

// advice says in a sentence for each group and job length how long a job can be (methodology section 15, advice).
func (a *answer) advice(context.Context) (data.Frames, error) {
	rows := a.jobsOf(a.Plan.JobHours)
	return a.jobTable(rows,
		rows.Number("jobHours", func(r *jobRow) float64 { return r.hours }),
		rows.Text("advice", func(r *jobRow) string { return r.advice() + r.memoryAdvice() }),
		rows.Number("runs", func(r *jobRow) float64 { return float64(len(r.items)) })), nil
}

func (j *job) advice() string {
	age, falls := j.curve.FirstBelow(0.9)
	if !falls {
		age = j.longestAge()
	}
	if age == 0 || survival.AtRisk(j.items, age) < survival.MinAtRisk {
		return fmt.Sprintf("Too few runs to tell: %d", len(j.items))
	}
	longest := pool.Hours(age)
	text := "90% of jobs up to " + frames.Duration(longest) + " finish"
	if !falls {
		text = "At least " + text
	}
	switch every, _ := j.checkpoints(); {
	case math.IsNaN(every) || longest >= j.hours:
		return text
	case every < j.hours:
		text += fmt.Sprintf("; jobs of %s should checkpoint every %s", frames.Duration(j.hours), frames.Duration(every))
	default:
		text += "; checkpoints do not pay for jobs of " + frames.Duration(j.hours)
	}
	if used := j.usedInterval(); !math.IsNaN(used) {
		text += " (those that do: every " + frames.Duration(used) + ")"
	}
	return text
}

// memoryAdvice says the smallest class of GPU memory that most of the runs with a known peak would have fitted, "" if
// they are too few or need more than the largest one (methodology section 20).
func (j *job) memoryAdvice() string {
	if len(j.peaks) < survival.MinAtRisk {
		return ""
	}
	median := slices.Sorted(slices.Values(j.peaks))[len(j.peaks)/2] // more than half need no more
	class, bounded := strings.CutPrefix(query.UsedMemories[query.UsedMemory(median)], "≤ ")
	if !bounded {
		return ""
	}
	return "; most would have fitted " + class + " of GPU memory"
}

// longestAge is the longest age at which enough items are at risk; 0 without.
func (j *job) longestAge() pool.Micros {
	byExit := slices.SortedFunc(slices.Values(j.items), func(a, b survival.Item) int {
		return cmp.Compare(b.Exit, a.Exit)
	})
	for i := survival.MinAtRisk - 1; i < len(byExit); i++ {
		if age := byExit[i].Exit; survival.AtRisk(j.items, age) >= survival.MinAtRisk {
			return age
		}
	}
	return 0
}
