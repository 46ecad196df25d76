package evictions

import (
	"context"
	"fmt"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
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
	runs     looking
	groups   *groups
	known    *runs.Known
	blind    bool          // completions cannot be seen
	slices   []pool.Micros // beginnings of the window's slices
}

func (a *answer) frames(ctx context.Context) (data.Frames, error) {
	switch a.plan.View {
	case "summary":
		f, err := a.summary(ctx)
		if err != nil {
			return nil, err
		}
		return Frames(f, a.plan, a.about), nil
	case "timeseries":
		f, err := a.timeseries(ctx)
		if err != nil {
			return nil, err
		}
		return Frames(f, a.plan, a.about), nil
	case "events":
		return a.events(ctx)
	case "runs":
		return a.list(ctx)
	case "survival":
		return a.survival(ctx)
	case "hourOfWeek":
		return a.hourOfWeek(ctx)
	}
	return a.annotations(ctx)
}

// summary are the figures of the window.
func (a *answer) summary(ctx context.Context) (*Figures, error) {
	g := a.groups
	var counted []*Sums // by group; nil = none
	var whole []float64
	f := &Figures{Total: GroupFigures{Blind: a.blind}}
	byEviction := g.byEviction()
	err := a.each(ctx, func(_ int32, r *Run) error {
		f.Total.Sums.add(r)
		if byEviction {
			n := int(g.number(r.row, true))
			for len(whole) <= n {
				whole = append(whole, 0)
			}
			whole[n] += r.gpuHours(r.Inside)
			if r.Result != runs.Evicted {
				return nil
			}
		}
		n := int(g.number(r.row, false))
		for len(counted) <= n {
			counted = append(counted, nil)
		}
		if counted[n] == nil {
			counted[n] = &Sums{}
		}
		counted[n].add(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.Total.Hours = f.Total.Sums.GPUHours
	for n, sums := range counted {
		if sums == nil {
			continue
		}
		k, hours := g.keys.All[n], sums.GPUHours
		if byEviction {
			whose := k
			whose.cause, whose.evidence = 0, 0
			hours = whole[g.keys.Number(whose)]
		}
		f.Groups = append(f.Groups, GroupFigures{Texts: g.texts(k), Sums: *sums, Hours: hours, Blind: a.blind})
	}
	return f, nil
}

// events are the evictions, newest first.
func (a *answer) events(ctx context.Context) (data.Frames, error) {
	evicted, err := a.evicted(ctx)
	if err != nil {
		return nil, err
	}
	return frames.Columns(a.plan, a.about,
		frames.Time("time", frames.Each(evicted, func(r *listed) pool.Micros { return r.End })),
		a.machine(evicted), gpuCount(evicted), a.gpuIDs(evicted), a.device(evicted), category(evicted), a.user(evicted),
		a.job(evicted),
		frames.Number("ranHours", frames.Each(evicted, func(r *listed) float64 { return pool.Hours(r.Whole()) })),
		frames.Number("gpuHours", frames.Each(evicted, func(r *listed) float64 { return r.gpuHours(r.Whole()) })),
		frames.Text("cause", frames.Each(evicted, func(r *listed) string { return r.Cause.String() })),
		frames.Text("evidence", frames.Each(evicted, func(r *listed) string { return r.Evidence.String() })),
		frames.Text("takenOverBy", frames.Each(evicted, a.takenOverBy))), nil
}

// evicted returns the runs that were evicted in the window, newest first.
func (a *answer) evicted(ctx context.Context) ([]*listed, error) {
	return a.newest(ctx, func(r *Run) bool { return r.Result == runs.Evicted })
}

// listed is a run in a list.
type listed struct {
	Run
	class     linked.Class
	at        int32 // its number
	explained *runs.Explained
}

// newest returns the runs that a list shows, newest first; those that end together by machine and first snapshot.
func (a *answer) newest(ctx context.Context, shows func(*Run) bool) ([]*listed, error) {
	all, ended := 0, make([]bool, len(a.runs.rows)) // ended: in the list, and the window does not cut its end
	var going []*listed
	err := a.each(ctx, func(number int32, r *Run) error {
		if !shows(r) {
			return nil
		}
		all++
		if r.Until == r.End {
			ended[number] = true
		} else {
			going = append(going, a.listed(number))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	runs.Sort(going, func(l *listed) pool.Micros { return -l.Until })
	list := make([]*listed, 0, frames.Shown(a.plan, a.about, all))
	order, err := newestFirst(ctx, a.known, a.runs.table)
	if err != nil {
		return nil, fmt.Errorf("listing backfill runs: %w", err)
	}
	for _, number := range order {
		if len(list) == cap(list) {
			return list, nil
		}
		if !ended[number] {
			continue
		}
		end := a.runs.rows[number].End
		for len(going) > 0 && len(list) < cap(list) &&
			(going[0].Until > end || going[0].Until == end && going[0].at < number) {
			list, going = append(list, going[0]), going[1:]
		}
		if len(list) < cap(list) {
			list = append(list, a.listed(number))
		}
	}
	return append(list, going[:cap(list)-len(list)]...), nil
}

func (a *answer) listed(number int32) *listed {
	l := &listed{at: number}
	r := &a.runs.rows[number]
	a.runs.show(r, &l.Run)
	l.class, l.explained = a.runs.classes.All[r.class], r.explained(a.known.Explanations)
	return l
}

func (a *answer) list(ctx context.Context) (data.Frames, error) {
	list, err := a.newest(ctx, func(*Run) bool { return true })
	if err != nil {
		return nil, err
	}
	return frames.Columns(a.plan, a.about,
		a.machine(list), gpuCount(list), a.gpuIDs(list), a.device(list), category(list), a.user(list), a.job(list),
		frames.Time("start", frames.Each(list, func(r *listed) pool.Micros { return r.Start })),
		frames.Time("end", frames.Each(list, func(r *listed) pool.Micros { return r.Until })),
		frames.Number("hours", frames.Each(list, func(r *listed) float64 { return pool.Hours(r.Whole()) })),
		frames.Text("outcome", frames.Each(list, func(r *listed) string { return r.Result.String() })),
		frames.Text("evidence", frames.Each(list, func(r *listed) string {
			if r.Result == runs.Running {
				return runs.None.String()
			}
			return r.Evidence.String()
		})),
		frames.Text("cause", frames.Each(list, func(r *listed) string {
			if r.Result == runs.Running {
				return runs.NoCause.String()
			}
			return r.Cause.String()
		})),
		frames.Text("link", frames.Each(list, func(r *listed) string { return r.Link.String() }))), nil
}

func (a *answer) machine(list []*listed) *data.Field {
	return frames.Text("machine", frames.Each(list, func(r *listed) string { return a.names[r.class.Place.Machine] }))
}

func gpuCount(list []*listed) *data.Field {
	return frames.Numbers("gpus", frames.Each(list, func(r *listed) int64 { return int64(r.gpus) }))
}

func (a *answer) ids(r *listed) string {
	gpus := a.observed.Machines[r.machine].GPUs
	if len(r.explained.GPUs) == 1 {
		return a.names[gpus[r.explained.GPUs[0]].ID]
	}
	ids := make([]string, len(r.explained.GPUs))
	for i, g := range r.explained.GPUs {
		ids[i] = a.names[gpus[g].ID]
	}
	return strings.Join(ids, ", ")
}

func (a *answer) gpuIDs(list []*listed) *data.Field {
	return frames.Text("gpuIds", frames.Each(list, a.ids))
}

func (a *answer) device(list []*listed) *data.Field {
	return frames.Text("device", frames.Each(list, func(r *listed) string {
		return a.plan.Shown("device",
			a.names[r.class.Place.Device])
	}))
}

func category(list []*listed) *data.Field {
	return frames.Text("category", frames.Each(list, func(r *listed) string { return r.class.Place.Category().String() }))
}

func (a *answer) user(list []*listed) *data.Field {
	return frames.Text("user", frames.Each(list, func(r *listed) string { return a.plan.Shown("user", a.names[r.User]) }))
}

func (a *answer) job(list []*listed) *data.Field {
	return frames.Text("job", frames.Each(list, func(r *listed) string {
		return a.plan.Shown("job",
			a.observed.View.Names.JobText(r.explained.Job))
	}))
}

func (a *answer) takenOverBy(r *listed) string {
	if !r.explained.Takeover {
		return ""
	}
	return a.plan.Shown("takenOverBy", a.names[r.explained.TakenBy])
}

// survival draws 1 − the share evicted, with completion competing.
func (a *answer) survival(ctx context.Context) (data.Frames, error) {
	g := a.groups
	var lives []frames.Lives
	err := a.each(ctx, func(_ int32, r *Run) error {
		if a.blind {
			return nil
		}
		n := g.number(r.row, false)
		for len(lives) < len(g.keys.All) {
			lives = append(lives, frames.Lives{Group: g.texts(g.keys.All[len(lives)]), Items: &survival.Cohort{}})
		}
		lives[n].Items.Add(r.item(a.plan.Window))
		return nil
	})
	if err != nil || a.blind {
		return a.about.Finish(nil), err
	}
	return frames.Curves(a.plan, a.about, "survival", "runs", lives, (*survival.Cohort).AalenJohansen), nil
}

func (a *answer) annotations(ctx context.Context) (data.Frames, error) {
	evicted, err := a.evicted(ctx)
	if err != nil {
		return nil, err
	}
	return frames.Columns(a.plan, a.about,
		frames.Time("time", frames.Each(evicted, func(r *listed) pool.Micros { return r.End })),
		frames.Time("timeEnd", frames.Each(evicted, func(r *listed) pool.Micros { return r.End })),
		frames.Text("title", frames.Each(evicted, func(r *listed) string {
			return "Evicted: " + a.names[r.class.Place.Machine]
		})),
		frames.Text("text", frames.Each(evicted, func(r *listed) string {
			text := fmt.Sprintf("%s ran %s h on %s (%s); %s, by %s", a.plan.Shown("user", a.names[r.User]),
				frames.Decimal(pool.Hours(r.Whole())), a.ids(r), a.plan.Shown("device", a.names[r.class.Place.Device]), r.Cause,
				r.Evidence)
			if by := a.takenOverBy(r); by != "" {
				text += "; taken over by " + by
			}
			return text
		})),
		frames.Text("tags", frames.Each(evicted, func(r *listed) string { return "eviction," + r.Cause.String() }))), nil
}
