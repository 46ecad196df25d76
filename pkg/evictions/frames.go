package evictions

import (
	"context"
	"fmt"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

// answer builds one answer's frames.
type answer struct {
	plan     *query.Plan
	about    *frames.About
	observed *runs.Observed
	names    []string
	runs     []Run         // that overlap the window and pass the filter
	blind    bool          // completions cannot be seen
	slices   []pool.Micros // beginnings of the window's slices
}

func (a *answer) frames(ctx context.Context) (data.Frames, error) {
	switch a.plan.View {
	case "summary":
		return Frames(a.summary(), a.plan, a.about), nil
	case "timeseries":
		f, err := a.timeseries(ctx)
		if err != nil {
			return nil, err
		}
		return Frames(f, a.plan, a.about), nil
	case "events":
		return a.events(), nil
	case "runs":
		return a.list(), nil
	case "survival":
		return a.survival(), nil
	case "hourOfWeek":
		return a.hourOfWeek()
	}
	return a.annotations(), nil
}

// summary are the figures of the window.
func (a *answer) summary() *Figures {
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	groups, whole := map[group]*Sums{}, map[group]float64{}
	f := &Figures{Total: GroupFigures{Blind: a.blind}}
	var last group // of neighbours, most are in one
	var into *Sums
	for i := range a.runs {
		r := &a.runs[i]
		f.Total.Sums.add(r)
		if g.byEviction() {
			whole[g.of(r, true)] += r.gpuHours(r.Inside)
			if r.Result != runs.Evicted {
				continue
			}
		}
		if k := g.of(r, false); into == nil || k != last {
			if groups[k] == nil {
				groups[k] = &Sums{}
			}
			last, into = k, groups[k]
		}
		into.add(r)
	}
	f.Total.Hours = f.Total.Sums.GPUHours
	for k, sums := range groups {
		hours := sums.GPUHours
		if g.byEviction() {
			k := k
			k.cause, k.evidence = 0, 0
			hours = whole[k]
		}
		f.Groups = append(f.Groups, GroupFigures{Texts: g.texts(k), Sums: *sums, Hours: hours, Blind: a.blind})
	}
	return f
}

// events are the evictions, newest first.
func (a *answer) events() data.Frames {
	evicted := a.evicted()
	return frames.Columns(a.plan, a.about,
		frames.Time("time", frames.Each(evicted, func(r *Run) pool.Micros { return r.End })),
		a.machine(evicted), gpuCount(evicted), a.gpuIDs(evicted), a.device(evicted), category(evicted), a.user(evicted),
		a.job(evicted),
		frames.Number("ranHours", frames.Each(evicted, func(r *Run) float64 { return pool.Hours(r.Whole()) })),
		frames.Number("gpuHours", frames.Each(evicted, func(r *Run) float64 { return r.gpuHours(r.Whole()) })),
		frames.Text("cause", frames.Each(evicted, func(r *Run) string { return r.Cause.String() })),
		frames.Text("evidence", frames.Each(evicted, func(r *Run) string { return r.Evidence.String() })),
		frames.Text("takenOverBy", frames.Each(evicted, a.takenOverBy)))
}

// evicted returns the runs that were evicted in the window, newest first.
func (a *answer) evicted() []*Run {
	return a.newest(func(r *Run) bool { return r.Result == runs.Evicted })
}

// newest returns the runs that a list shows, newest first; they come by machine and first snapshot.
func (a *answer) newest(shows func(*Run) bool) []*Run {
	list := make([]*Run, 0, len(a.runs))
	for i := range a.runs {
		if shows(&a.runs[i]) {
			list = append(list, &a.runs[i])
		}
	}
	runs.Sort(list, func(r *Run) pool.Micros { return -r.Until })
	return list[:frames.Shown(a.plan, a.about, len(list))]
}

func (a *answer) list() data.Frames {
	list := a.newest(func(*Run) bool { return true })
	return frames.Columns(a.plan, a.about,
		a.machine(list), gpuCount(list), a.gpuIDs(list), a.device(list), category(list), a.user(list), a.job(list),
		frames.Time("start", frames.Each(list, func(r *Run) pool.Micros { return r.Start })),
		frames.Time("end", frames.Each(list, func(r *Run) pool.Micros { return r.Until })),
		frames.Number("hours", frames.Each(list, func(r *Run) float64 { return pool.Hours(r.Whole()) })),
		frames.Text("outcome", frames.Each(list, func(r *Run) string { return r.Result.String() })),
		frames.Text("evidence", frames.Each(list, func(r *Run) string {
			if r.Result == runs.Running {
				return runs.None.String()
			}
			return r.Evidence.String()
		})),
		frames.Text("cause", frames.Each(list, func(r *Run) string {
			if r.Result == runs.Running {
				return runs.NoCause.String()
			}
			return r.Cause.String()
		})),
		frames.Text("link", frames.Each(list, func(r *Run) string { return r.Link.String() })))
}

func (a *answer) machine(list []*Run) *data.Field {
	return frames.Text("machine", frames.Each(list, func(r *Run) string { return a.names[r.Place.Machine] }))
}

func gpuCount(list []*Run) *data.Field {
	return frames.Numbers("gpus", frames.Each(list, func(r *Run) int64 { return int64(len(r.GPUs)) }))
}

func (a *answer) ids(r *Run) string {
	ids := make([]string, len(r.GPUs))
	for i, g := range r.GPUs {
		ids[i] = a.names[r.Machine.GPUs[g].ID]
	}
	return strings.Join(ids, ", ")
}

func (a *answer) gpuIDs(list []*Run) *data.Field {
	return frames.Text("gpuIds", frames.Each(list, a.ids))
}

func (a *answer) device(list []*Run) *data.Field {
	return frames.Text("device", frames.Each(list, func(r *Run) string {
		return a.plan.Shown("device",
			a.names[r.Place.Device])
	}))
}

func category(list []*Run) *data.Field {
	return frames.Text("category", frames.Each(list, func(r *Run) string { return r.Place.Category().String() }))
}

func (a *answer) user(list []*Run) *data.Field {
	return frames.Text("user", frames.Each(list, func(r *Run) string { return a.plan.Shown("user", a.names[r.User]) }))
}

func (a *answer) job(list []*Run) *data.Field {
	return frames.Text("job", frames.Each(list, func(r *Run) string {
		return a.plan.Shown("job",
			a.observed.View.Names.JobText(r.Job))
	}))
}

func (a *answer) takenOverBy(r *Run) string {
	if !r.Takeover {
		return ""
	}
	return a.plan.Shown("takenOverBy", a.names[r.TakenBy])
}

// survival draws 1 − the share evicted, with completion competing.
func (a *answer) survival() data.Frames {
	if a.blind {
		return a.about.Finish(nil)
	}
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	groups := map[group][]*Run{}
	for i := range a.runs {
		k := g.of(&a.runs[i], false)
		groups[k] = append(groups[k], &a.runs[i])
	}
	lives := make([]frames.Lives, 0, len(groups))
	for k, list := range groups {
		lives = append(lives, frames.Lives{Group: g.texts(k), Items: survival.CohortOf(items(list, a.plan.Window))})
	}
	return frames.Curves(a.plan, a.about, "survival", "runs", lives, (*survival.Cohort).AalenJohansen)
}

func (a *answer) annotations() data.Frames {
	evicted := a.evicted()
	return frames.Columns(a.plan, a.about,
		frames.Time("time", frames.Each(evicted, func(r *Run) pool.Micros { return r.End })),
		frames.Time("timeEnd", frames.Each(evicted, func(r *Run) pool.Micros { return r.End })),
		frames.Text("title", frames.Each(evicted, func(r *Run) string { return "Evicted: " + a.names[r.Place.Machine] })),
		frames.Text("text", frames.Each(evicted, func(r *Run) string {
			text := fmt.Sprintf("%s ran %s h on %s (%s); %s, by %s", a.plan.Shown("user", a.names[r.User]),
				frames.Decimal(pool.Hours(r.Whole())), a.ids(r), a.plan.Shown("device", a.names[r.Place.Device]), r.Cause,
				r.Evidence)
			if by := a.takenOverBy(r); by != "" {
				text += "; taken over by " + by
			}
			return text
		})),
		frames.Text("tags", frames.Each(evicted, func(r *Run) string { return "eviction," + r.Cause.String() })))
}
