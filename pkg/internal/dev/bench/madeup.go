package bench

import (
	"context"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// madeUp is a source whose days have a sample pool's snapshots in place of their own, under their own keys: segments of
// them are valid for the source itself. This is how pools are measured that are too large to be made as files.
type madeUp struct {
	snapshots.Source

	mu   sync.Mutex
	next func() (samplepool.Snapshot, error, bool)
	days map[int32][]samplepool.Snapshot // generated and not requested yet
	past int32                           // the last day that it is through with
}

// newMadeUp puts a pool's snapshots in place of those of a source. Days must be requested once, more or less in
// their order.
func newMadeUp(source snapshots.Source, made iter.Seq2[samplepool.Snapshot, error]) (m *madeUp, stop func()) {
	next, stop := iter.Pull2(made)
	return &madeUp{Source: source, next: next, days: map[int32][]samplepool.Snapshot{}}, stop
}

// Look implements snapshots.Source.
func (m *madeUp) Look(ctx context.Context) (snapshots.State, error) {
	state, err := m.Source.Look(ctx)
	return madeUpState{state, m}, err
}

// of returns the pool's snapshots of a day.
func (m *madeUp) of(date int32) ([]samplepool.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.past < date {
		s, err, more := m.next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		s.Rows = slices.Clone(s.Rows) // the pool writes the next snapshot over them
		of := pool.DayOf(s.Time.UnixMicro())
		m.days[of] = append(m.days[of], s)
		m.past = of - 1
	}
	all := m.days[date]
	delete(m.days, date)
	return all, nil
}

type madeUpState struct {
	snapshots.State
	source *madeUp
}

// Rows implements snapshots.State.
func (s madeUpState) Rows(
	ctx context.Context, date int32, _ snapshots.Known, v snapshots.Visitor,
) (found snapshots.Reading, err error) {
	if found.Key, err = s.Key(ctx, date); err != nil {
		return found, err
	}
	day, err := s.source.of(date)
	if err != nil {
		return found, err
	}
	v.Begin(false)
	numbers := map[string]uint32{}
	for _, made := range day {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		snapshot := snapshots.Snapshot{Time: made.Time.UnixMicro(), End: made.Time.UnixMicro()}
		for _, r := range made.Rows {
			row := rowOf(r)
			number, known := numbers[string(row)]
			if !known {
				number = uint32(len(numbers))
				numbers[string(row)] = number
				v.Distinct(row)
			}
			usage := math.NaN()
			if r.UsageReported {
				usage = r.AverageUsage
			}
			snapshot.Rows, snapshot.Usage = append(snapshot.Rows, number), append(snapshot.Usage, usage)
			found.Rows++
		}
		if err := v.Snapshot(snapshot); err != nil {
			return found, err
		}
	}
	return found, nil
}

func rowOf(r samplepool.Row) snapshots.Row {
	memory := ""
	if r.MemoryMB > 0 {
		memory = strconv.Itoa(r.MemoryMB)
	}
	texts := snapshots.Texts{
		snapshots.Name: r.Name, snapshots.AssignedGPUs: r.AssignedGPUs, snapshots.SlotState: r.State,
		snapshots.DeviceName: r.DeviceName, snapshots.GlobalMemoryMb: memory,
		snapshots.PrioritizedProjects: r.PrioritizedProjects, snapshots.Machine: r.Machine,
		snapshots.RemoteOwner: r.RemoteOwner, snapshots.GlobalJobID: r.GlobalJobID,
		snapshots.PreventJobsReason: r.PreventJobsReason,
	}
	var row snapshots.Row
	for _, text := range texts {
		row = snapshots.AppendText(row, text)
	}
	return row
}
