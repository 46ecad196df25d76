package allocation

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// machineRow is a machine over the window.
type machineRow struct {
	name, ownership, excludedReason                                string
	projects, devices                                              map[string]bool
	gpus                                                           map[timeline.GPU]bool
	allocated, allocatedPercent, backfillAllocated, drained, count float64
	lastSeen                                                       pool.Micros
}

// machines lists the machines with a GPU in the window, and the excluded ones with their reasons and no figures.
func machines(ctx context.Context, kept *counts.Cache, s *timeline.Slices, p *query.Plan,
	about *frames.About) (data.Frames, error) {
	names := s.View.Names.Texts()
	count, err := counts.New(ctx, kept, p, s, []string{"machine", "slots"}, counts.Claimed, counts.Unclaimed,
		counts.Drained)
	if err != nil {
		return nil, err
	}
	found, err := machinesSeen(ctx, s, p, names)
	if err != nil {
		return nil, err
	}
	for g, group := range count.Groups {
		r := found[group.Machine]
		sums := count.Of(g)
		if group.Side == pool.Backfill {
			r.backfillAllocated = metric("allocated", sums, 0, s.N())
			continue
		}
		r.allocated, r.drained = metric("allocated", sums, 0, s.N()), metric("drained", sums, 0, s.N())
		r.allocatedPercent = metric("allocatedPercent", sums, 0, s.N())
	}
	rows := make([]*machineRow, 0, len(found))
	for _, r := range found {
		if r.excludedReason != "" {
			r.allocated, r.allocatedPercent, r.backfillAllocated, r.drained, r.count = nan, nan, nan, nan, nan
		} else if p.Select.Idle && r.allocated > 0 {
			continue
		}
		rows = append(rows, r)
	}
	if p.Select.Idle { // an excluded machine has no figure to be idle by
		rows = slices.DeleteFunc(rows, func(r *machineRow) bool { return r.excludedReason != "" })
	}
	slices.SortFunc(rows, func(a, b *machineRow) int { return cmp.Compare(a.name, b.name) })
	return frames.List(p, about,
		frames.Text("machine", column(rows, func(r **machineRow) string { return (*r).name })),
		frames.Text("ownership", column(rows, func(r **machineRow) string { return (*r).ownership })),
		frames.Text("projects", column(rows, func(r **machineRow) string { return joined((*r).projects) })),
		frames.Text("devices", column(rows, func(r **machineRow) string { return joined((*r).devices) })),
		frames.Number("gpus", column(rows, func(r **machineRow) float64 { return (*r).count })),
		frames.Number("allocated", column(rows, func(r **machineRow) float64 { return (*r).allocated })),
		frames.Number("allocatedPercent", column(rows, func(r **machineRow) float64 { return (*r).allocatedPercent })),
		frames.Number("backfillAllocated", column(rows, func(r **machineRow) float64 { return (*r).backfillAllocated })),
		frames.Number("drained", column(rows, func(r **machineRow) float64 { return (*r).drained })),
		frames.Time("lastSeen", column(rows, func(r **machineRow) pool.Micros { return (*r).lastSeen })),
		frames.Text("excludedReason", column(rows, func(r **machineRow) string { return (*r).excludedReason })),
	), nil
}

// machinesSeen returns the machines with a GPU in the window that pass the filters, excluded ones included.
func machinesSeen(ctx context.Context, s *timeline.Slices, p *query.Plan,
	names []string) (map[timeline.Symbol]*machineRow, error) {
	all := *p
	all.Env.Lists.Excluded = nil
	classify := counts.NewClassifier(&all, names)
	found := map[timeline.Symbol]*machineRow{}
	for i := range s.Days {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		day := &s.Days[i]
		from, to := day.Snapshots()
		for g := range day.GPUs() {
			class, in := classify.GPU(day.Day, g)
			if !in {
				continue
			}
			name := day.Machines()[day.MachineOf(g)].Name
			first, spans := day.Spans(g)
			last, any := timeline.Symbol(0), false // rows of a GPU mostly have the same projects
			for k := range first {
				if int(first[k]) >= to || k+1 < len(first) && int(first[k+1]) <= from {
					continue
				}
				primary, backfill := day.StatusRows(spans[k])
				for side, number := range [2]uint32{primary, backfill} {
					row := day.Row(number)
					if number == 0 || any && row.Project == last || !classify.Keeps(class, pool.Side(side), row) {
						continue
					}
					last, any = row.Project, true
					r := found[name]
					if r == nil {
						r = newMachineRow(names[name], p)
						found[name] = r
					}
					for _, project := range pool.Projects(names[row.Project]) {
						r.projects[project] = true
					}
				}
			}
			if any {
				r := found[name]
				r.ownership = class.Ownership.String() // of the last day
				r.gpus[day.GPU(g)] = true
				r.count = float64(len(r.gpus))
				r.devices[query.Shown("device", names[day.Model(g).Device])] = true
			}
		}
		for m, machine := range day.Machines() { // rows without a GPU tell that the machine reports, too
			r := found[machine.Name]
			for last := to - 1; r != nil && last >= from; last-- {
				if day.Reports(m, last) {
					r.lastSeen = day.Times[last]
					break
				}
			}
		}
	}
	return found, nil
}

func newMachineRow(name string, p *query.Plan) *machineRow {
	r := &machineRow{name: name, projects: map[string]bool{}, devices: map[string]bool{}, gpus: map[timeline.GPU]bool{},
		allocatedPercent: nan}
	if e := p.Env.Lists.ExclusionOf(name); e != nil {
		r.excludedReason = cmp.Or(e.Reason, "excluded")
	}
	return r
}

func joined(set map[string]bool) string {
	members := make([]string, 0, len(set))
	for m := range set {
		members = append(members, m)
	}
	slices.Sort(members)
	return strings.Join(members, ", ")
}
