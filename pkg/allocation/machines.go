package allocation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// machineRow is a machine over the window.
type machineRow struct {
	name, ownership, excludedReason string
	projects                        map[timeline.Symbol]bool // lists of them
	devices                         map[string]bool
	gpus                            map[timeline.GPU]timeline.Symbol // with their last devices
	reasons                         map[string]pool.Micros           // PreventJobsReason, with its last sight
	lastSeen                        pool.Micros
	allocated, allocatedPercent     float64
	backfillAllocated, drained      float64
	whole                           float64
	parts                           string // how many parts of GPUs there are, by profile
}

// machines lists the machines with a GPU in the window, and the excluded ones with their reasons and no figures.
func machines(ctx context.Context, memo stores.Memo, s *timeline.Slices, p *query.Plan,
	about *frames.About) (data.Frames, error) {
	names := s.View.Names.Texts()
	count, err := counts.New(ctx, memo, p, s, nil, []string{"machine", "slots"}, counts.Claimed, counts.Unclaimed,
		counts.Drained)
	if err != nil {
		return nil, err
	}
	found, err := machinesSeen(ctx, s, p, names)
	if err != nil {
		return nil, err
	}
	// Average what was allocated on each machine.
	for i := range count.Groups {
		group := &count.Groups[i]
		machine := timeline.Symbol(group.Key[query.ByMachine])
		r, of := found[machine], &point{&group.Sums, 0, float64(s.N())}
		if group.Side == pool.Backfill {
			r.backfillAllocated = average(counts.Claimed)(of)
			continue
		}
		r.allocated, r.drained = average(counts.Claimed)(of), average(counts.Drained)(of)
		r.allocatedPercent = of.allocatedPercent()
	}
	// List the machines, or only those that are idle.
	var rows []*machineRow
	for _, r := range found {
		excluded := r.excludedReason != ""
		if p.Select.Idle && (excluded || r.allocated > 0) { // an excluded machine has no figure to be idle by
			continue
		}
		if !excluded {
			r.countGPUs(s.View.Names, names)
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *machineRow) int { return cmp.Compare(a.name, b.name) })
	return machineTable(p, about, rows, names, pool.Hours(s.Coverage(p.Env.Lists).Covered)), nil
}

// machineTable returns the table of rows. names are the names of symbols, covered the covered hours.
func machineTable(p *query.Plan, about *frames.About, rows frames.Rows[machineRow], names []string,
	covered float64) data.Frames {
	number := func(name string, value func(*machineRow) float64) *data.Field {
		return rows.Number(name, func(r *machineRow) float64 {
			if r.excludedReason != "" {
				return math.NaN()
			}
			return value(r)
		})
	}
	return frames.List(p, about,
		rows.Text("machine", func(r *machineRow) string { return r.name }),
		rows.Text("ownership", func(r *machineRow) string { return r.ownership }),
		rows.Text("projects", func(r *machineRow) string { return joined(r.projectsIn(names)) }),
		rows.Text("devices", func(r *machineRow) string { return joined(r.devices) }),
		number("gpus", func(r *machineRow) float64 { return float64(len(r.gpus)) }),
		number("allocated", func(r *machineRow) float64 { return r.allocated }),
		number("allocatedPercent", func(r *machineRow) float64 { return r.allocatedPercent }),
		number("backfillAllocated", func(r *machineRow) float64 { return r.backfillAllocated }),
		number("drained", func(r *machineRow) float64 { return r.drained }),
		rows.Time("lastSeen", func(r *machineRow) pool.Micros { return r.lastSeen }),
		rows.Text("excludedReason", func(r *machineRow) string { return r.excludedReason }),
		number("drainedGpuHours", func(r *machineRow) float64 { return r.drained * covered }),
		number("wholeGpus", func(r *machineRow) float64 { return r.whole }),
		rows.Text("migParts", func(r *machineRow) string { return r.parts }),
		rows.Text("preventReasons", (*machineRow).preventReasons),
		rows.Text("preventState", (*machineRow).preventState),
		rows.Time("preventLastSeen", (*machineRow).preventLastSeen),
	)
}

// machinesSeen returns the machines with a GPU in the window that pass the filters, excluded ones included.
func machinesSeen(ctx context.Context, s *timeline.Slices, p *query.Plan,
	names []string) (map[timeline.Symbol]*machineRow, error) {
	all := *p
	all.Env.Lists.Excluded = nil
	classify, found := counts.NewClassifier(&all, names), map[timeline.Symbol]*machineRow{}
	for i := range parallel.Until(ctx, len(s.Days)) {
		day := &s.Days[i]
		from, to := day.Snapshots()
		for g, class := range classify.GPUs(day.Day) {
			machine := day.Machines[day.MachineOf(g)].Name
			r, kept := found[machine], false
			if r == nil {
				r = newMachineRow(names[machine], p)
			}
			// Gather what the rows of the GPU say that pass the filter.
			for span := range day.SpansIn(g, from, to) {
				for side, row := range day.StatusRows(span.Status) {
					if row.State == pool.None || !classify.Keeps(&class, pool.Side(side), row) {
						continue
					}
					kept = true
					if !r.projects[row.Project] { // most spans repeat it, and writing to a map takes longer than reading
						r.projects[row.Project] = true
					}
					if row.Reason != 0 {
						reason := names[row.Reason]
						r.reasons[reason] = max(r.reasons[reason], day.Times[span.End-1])
					}
				}
			}
			if kept {
				found[machine], r.ownership = r, class.Ownership.String() // the last day's counts
				device := day.Model(g).Device
				r.gpus[day.GPU(g)], r.devices[p.Shown("device", names[device])] = device, true
			}
		}
		// Find when each was seen last: rows without a GPU show that a machine reports, too.
		for m, machine := range day.Machines {
			r := found[machine.Name]
			for last := to - 1; r != nil && last >= from; last-- {
				if day.Reports(m, last) {
					r.lastSeen = day.Times[last]
					break
				}
			}
		}
	}
	return found, ctx.Err()
}

func newMachineRow(name string, p *query.Plan) *machineRow {
	r := &machineRow{name: name, projects: map[timeline.Symbol]bool{}, devices: map[string]bool{},
		gpus: map[timeline.GPU]timeline.Symbol{}, reasons: map[string]pool.Micros{}, allocatedPercent: math.NaN()}
	if e := p.Env.Lists.ExclusionOf(name); e != nil {
		r.excludedReason = cmp.Or(e.Reason, "excluded")
	}
	return r
}

// projectsIn are all projects of the lists.
func (r *machineRow) projectsIn(names []string) map[string]bool {
	all := map[string]bool{}
	for list := range r.projects {
		for _, project := range pool.Projects(names[list]) {
			all[project] = true
		}
	}
	return all
}

// countGPUs counts GPUs that are whole, and parts of GPUs by profile.
func (r *machineRow) countGPUs(known *timeline.Names, names []string) {
	profiles := map[string]int{}
	for gpu, device := range r.gpus {
		_, id := known.GPU(gpu)
		if profile, part := pool.MIGProfile(names[id], names[device]); part {
			profiles[cmp.Or(profile, "unknown profile")]++
		} else {
			r.whole++
		}
	}
	var parts []string
	for _, profile := range slices.Sorted(maps.Keys(profiles)) {
		parts = append(parts, fmt.Sprintf("%d × %s", profiles[profile], profile))
	}
	r.parts = strings.Join(parts, ", ")
}

// preventReasons are the reasons that keep or kept jobs away, the last seen first. If some are still set, those that
// are lifted are marked.
func (r *machineRow) preventReasons() string {
	reasons := slices.SortedFunc(maps.Keys(r.reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.reasons[b], r.reasons[a]), cmp.Compare(a, b))
	})
	active := r.preventState() == "active"
	for i, reason := range reasons {
		if active && r.reasons[reason] < r.lastSeen {
			reasons[i] += " (lifted)"
		}
	}
	return strings.Join(reasons, "; ")
}

// preventState reports whether a reason is in the last snapshot that the machine is in.
func (r *machineRow) preventState() string {
	switch last := r.preventLastSeen(); {
	case last == frames.NoTime:
		return ""
	case last < r.lastSeen:
		return "lifted"
	}
	return "active"
}

// preventLastSeen is the last snapshot with a reason.
func (r *machineRow) preventLastSeen() pool.Micros {
	last := frames.NoTime
	for _, at := range r.reasons {
		last = max(last, at)
	}
	return last
}

func joined(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }
