package report

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
)

// Owner accounts for a project's machines while they give it priority: their capacity, what their owner used, and what
// others used (methodology section 5).
type Owner struct {
	Project        string
	Machines       []string
	Whole          Use
	Months         []Use // calendar months, cut to the window; none within one month
	Devices, Users []Use // by name

	jobs     []section              // about the jobs of the project, if there are any
	jobsTold []backend.DataResponse // their answers

	options  Options
	source   backend.QueryDataHandler
	answered data.Frames // without their rows
}

// Use counts GPU hours of a project's machines. Owned counts real slots that could be allocated or were drained, Own
// the real slots that jobs held, and Given the backfill slots that jobs held. Elsewhere counts what the users of the
// real slots held on machines where the project has no priority, on either kind of slot. Lost counts what evictions
// cost the users of the backfill slots since their jobs' last checkpoints, Evicted all that the evicted runs held.
type Use struct {
	Name                         string
	Owned, Own, Given, Elsewhere float64
	Evictions, Yielded, Saved    float64 // runs; Saved: evicted runs in which the job had saved
	Lost, Evicted                float64
}

// figures returns the figures that can be added up, in the order of CSV, which does not have the last one.
func (u *Use) figures() []*float64 {
	return []*float64{&u.Owned, &u.Own, &u.Given, &u.Elsewhere, &u.Evictions, &u.Yielded, &u.Lost, &u.Evicted, &u.Saved}
}

// MakeOwner asks the data source. It fails if the project is unknown, with similar names, or if a query has no answer.
func MakeOwner(ctx context.Context, source backend.QueryDataHandler, project string, o Options) (*Owner, error) {
	r := &Owner{Project: project, options: o, source: source}
	// Find the project's machines and jobs.
	whole := backend.TimeRange{From: o.From, To: o.To}
	found, err := r.ask(ctx, whole, ask("allocation", "machines", "limit", mostRows))
	if err != nil {
		return nil, err
	}
	jobs, err := o.answersTo(ctx, source, whole, ask("userHours", "summary", "groupBy", names{"jobProject"}, "metrics",
		names{"gpuHours"}, "totals", false, "limit", mostRows)) // without queue files its notice is of no use here
	if err == nil {
		err = jobs[0].Error
	}
	if err != nil {
		return nil, fmt.Errorf("the projects of jobs: %w", err)
	}
	if err := r.find(found[0], jobs[0].Frames); err != nil {
		return nil, err
	}
	if r.jobsTold, err = o.answersTo(ctx, source, whole, queriesOf(r.jobs)...); err != nil {
		return nil, err
	}
	if len(r.Machines) == 0 {
		return r, nil
	}
	// Account for its machines: as a whole, and by month if there are several.
	if r.Devices, r.Users, err = r.account(ctx, whole); err != nil {
		return nil, err
	}
	r.Whole = sumOf("All", r.Devices)
	months := monthsOf(whole, o.Zone)
	for i := 0; len(months) > 1 && i < len(months); i++ {
		devices, _, err := r.account(ctx, months[i])
		if err != nil {
			return nil, err
		}
		r.Months = append(r.Months, sumOf(months[i].From.In(o.Zone).Format("2006-01"), devices))
	}
	return r, nil
}

const mostRows = 50_000

// ask asks queries over a window, and keeps their answers for the notices.
func (r *Owner) ask(ctx context.Context, window backend.TimeRange, queries ...query) ([]data.Frames, error) {
	responses, err := r.options.answersTo(ctx, r.source, window, queries...)
	if err != nil {
		return nil, err
	}
	answers := make([]data.Frames, len(queries))
	for i, answer := range responses {
		if answer.Error != nil {
			return nil, fmt.Errorf("the owner's figures: %w", answer.Error)
		}
		answers[i] = answer.Frames
		for _, frame := range answer.Frames {
			r.answered = append(r.answered, &data.Frame{Meta: frame.Meta})
		}
	}
	return answers, nil
}

// find finds the project's machines, and whether jobs that held GPUs have it. A known project has one or the other.
func (r *Owner) find(machines, jobs data.Frames) error {
	known := map[string]bool{}
	for _, hours := range records(jobs) {
		for _, project := range pool.Projects(hours.text("jobProject")) {
			if project == r.Project {
				r.jobs = sectionsOfJobs(project)
			} else if project != unknown {
				known[project] = true
			}
		}
	}
	for _, m := range records(machines) {
		for _, project := range pool.Projects(m.text("projects")) {
			known[project] = true
			if project == r.Project {
				r.Machines = append(r.Machines, m.text("machine"))
			}
		}
	}
	if len(r.Machines) > 0 || r.jobs != nil {
		return nil
	}
	// Name the few projects that are most similar.
	near, lower := slices.Sorted(maps.Keys(known)), strings.ToLower
	off := func(name string) int { return pool.LettersOff(lower(r.Project), lower(name)) }
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(off(a), off(b)) })
	if len(near) == 0 {
		return pool.BadQuery("report: no machine and no job has the project %q in this time range, nor any other project",
			r.Project)
	}
	return pool.BadQuery("report: no machine and no job has the project %q in this time range; similar: %s", r.Project,
		strings.Join(near[:min(len(near), 5)], ", "))
}

// monthsOf splits a window where months begin in the zone.
func monthsOf(w backend.TimeRange, zone *time.Location) (months []backend.TimeRange) {
	for from := w.From; from.Before(w.To); {
		local := from.In(zone)
		next := time.Date(local.Year(), local.Month()+1, 1, 0, 0, 0, 0, zone)
		to := next.Add(-time.Microsecond)
		if to.After(w.To) {
			to = w.To
		}
		months = append(months, backend.TimeRange{From: from, To: to})
		from = next
	}
	return months
}

// account adds up the use of the owner's machines in a window, by device and by user.
func (r *Owner) account(ctx context.Context, window backend.TimeRange) (byDevice, byUser []Use, err error) {
	here, there := names{literal(r.Project)}, names{"!" + r.Project}
	hours := func(f filter) query {
		return ask("userHours", "summary", "groupBy", names{"device"}, "filter", f, "limit", mostRows)
	}
	answers, err := r.ask(ctx, window,
		ask("allocation", "summary", "groupBy", names{"device"}, "metrics", names{"available", "drained"}, "totals", false,
			"filter", filter{"projects": here, "slots": names{"Real"}}),
		hours(filter{"projects": here, "slots": names{"Real"}}), hours(filter{"projects": here, "slots": names{"Backfill"}}),
		ask("evictions", "summary", "groupBy", names{"device", "user"}, "filter", filter{"projects": here}, "metrics",
			append(names{"yielded"}, lossFigures...), "totals", false, "limit", mostRows))
	if err != nil {
		return nil, nil, err
	}
	// Add the answers up by device and by user.
	devices, users := uses{}, uses{}
	addHours := func(answer data.Frames, to func(*Use) *float64) {
		for _, row := range records(answer) {
			switch row.text(rowType) {
			case "group":
				*to(pool.In(devices, row.text("device"))) += row.number("gpuHours")
			case "user":
				*to(pool.In(users, row.text("user"))) += row.number("gpuHours")
			}
		}
	}
	for _, row := range records(answers[0]) {
		gpus := row.number("available") + row.number("drained")
		pool.In(devices, row.text("device")).Owned += gpus * stat(row.Frame, "Covered hours (D)")
	}
	addHours(answers[1], func(u *Use) *float64 { return &u.Own })
	addHours(answers[2], func(u *Use) *float64 { return &u.Given })
	for _, row := range records(answers[3]) {
		pool.In(devices, row.text("device")).addEvictions(row)
		pool.In(users, row.text("user")).addEvictions(row)
	}
	// The users of primary slots are the owners: see what they used elsewhere.
	var owners names
	for _, u := range users.list() {
		if u.Own > 0 && u.Name != unknown {
			owners = append(owners, literal(u.Name))
		}
	}
	if len(owners) > 0 {
		elsewhere := hours(filter{"projects": there, "users": owners})
		if answers, err = r.ask(ctx, window, elsewhere); err != nil {
			return nil, nil, err
		}
		addHours(answers[0], func(u *Use) *float64 { return &u.Elsewhere })
	}
	return devices.list(), users.list(), nil
}

// addEvictions adds the cost of evictions.
func (u *Use) addEvictions(row record) {
	evictions := row.number("evictions")
	u.Evictions += evictions
	u.Yielded += row.number("yielded")
	u.Lost += row.number("lostGpuHours")
	u.Evicted += row.number("evictedGpuHours")
	if evictions > 0 {
		u.Saved += math.Round(evictions * row.number("checkpointedPercent") / 100)
	}
}

// sumOf adds uses up.
func sumOf(name string, all []Use) Use {
	sum := Use{Name: name}
	for _, u := range all {
		for i, figure := range u.figures() {
			*sum.figures()[i] += *figure
		}
	}
	return sum
}

// uses are uses by their names.
type uses map[string]*Use

func (u uses) list() (list []Use) {
	for _, name := range slices.Sorted(maps.Keys(u)) {
		u[name].Name = name
		list = append(list, *u[name])
	}
	return list
}

// literal is a filter entry that matches a value literally.
func literal(value string) string {
	if strings.HasPrefix(value, "!") {
		return `\` + value
	}
	return value
}

// stat returns a statistic of an answer, or NaN if it has none.
func stat(frame *data.Frame, name string) float64 {
	for _, s := range frame.Meta.Stats {
		if s.DisplayName == name {
			return s.Value
		}
	}
	return math.NaN()
}

// Report formats the account for readers.
func (r *Owner) Report() *Report {
	o := r.options
	made := &Report{Title: "GPUs of " + clean(r.Project), Subtitle: o.window(), Notices: notices(r.answered),
		Facts: []Fact{{"Machines", strconv.Itoa(len(r.Machines))}, {"Generated", o.time(o.Now) + " " + o.Zone.String()}}}
	if len(r.Machines) == 0 {
		made.add(o, r.jobsTold, r.jobs...)
		return made
	}
	add := func(key, title, about string, table *Table) {
		block := Block{Caption: title, Table: table}
		if len(table.Rows) == 0 {
			block.Table, block.Empty = nil, "Nothing was used."
		}
		made.Sections = append(made.Sections, Section{Key: key, Title: title, About: about, Blocks: []Block{block}})
	}
	add("devices", "By device", "Owned: GPU hours of primary slots that could be allocated or were drained. Own use: "+
		"hours held on these slots. Given: hours that others held on their backfill slots. Used elsewhere: hours that the "+
		"users of the primary slots held on other machines.", r.table("Device", r.Devices, &r.Whole))
	if len(r.Months) > 0 {
		add("months", "By month", "Each month has its own slices and covered hours.", r.table("Month", r.Months, nil))
	}
	add("own", "Own use by user", "", r.byUser(func(u Use) float64 { return u.Own }))
	add("given", "Given to others by user", "", r.byUser(func(u Use) float64 { return u.Given }))
	add("elsewhere", "Used elsewhere by user", "", r.byUser(func(u Use) float64 { return u.Elsewhere }))
	add("evictions", "What evictions cost the users of backfill slots", "Lost: GPU hours of evicted runs since their "+
		"jobs' last checkpoints. Evicted: GPU hours of the whole runs. Jobs that yield have saved their work and lose "+
		"nothing.",
		r.evictions())
	made.add(o, r.jobsTold, r.jobs...)
	return made
}

func gpuHours(x float64) string { return frames.Thousands(strconv.FormatFloat(x, 'f', 1, 64)) }

// share returns a part of the owned GPU hours, in percent.
func share(part, owned float64) string {
	if owned == 0 {
		return none
	}
	return strconv.FormatFloat(100*part/owned, 'f', 1, 64)
}

// usesTable shows figures of uses beside their names, and of a total below (nil: none).
func usesTable(columns names, uses []Use, total *Use, figures func(Use) []string) *Table {
	t := &Table{Columns: []Column{{Name: columns[0]}}}
	for _, name := range columns[1:] {
		t.Columns = append(t.Columns, Column{name, true})
	}
	for _, u := range uses {
		t.Rows = append(t.Rows, Row{Cells: append([]string{clean(u.Name)}, figures(u)...)})
	}
	if total != nil {
		t.Rows = append(t.Rows, Row{Kind: Total, Cells: append([]string{total.Name}, figures(*total)...)})
	}
	return t
}

// table shows the use of the owned GPU hours.
func (r *Owner) table(name string, uses []Use, total *Use) *Table {
	columns := names{name, "Owned (GPU h)", "Own use (GPU h)", "Own use (%)", "Given (GPU h)", "Given (%)",
		"Used elsewhere (GPU h)"}
	return usesTable(columns, uses, total, func(u Use) []string {
		return []string{gpuHours(u.Owned), gpuHours(u.Own), share(u.Own, u.Owned), gpuHours(u.Given),
			share(u.Given, u.Owned), gpuHours(u.Elsewhere)}
	})
}

// users are the users with some of a figure, those with most of another first.
func (r *Owner) users(some, most func(Use) float64) []Use {
	users := slices.DeleteFunc(slices.Clone(r.Users), func(u Use) bool { return some(u) == 0 })
	slices.SortStableFunc(users, func(a, b Use) int { return cmp.Compare(most(b), most(a)) })
	return users
}

// byUser lists one figure by user, largest first.
func (r *Owner) byUser(of func(Use) float64) *Table {
	return usesTable(names{"User", "GPU h", "Of owned (%)"}, r.users(of, of), nil,
		func(u Use) []string { return []string{gpuHours(of(u)), share(of(u), r.Whole.Owned)} })
}

// evictions lists the cost of evictions by user, largest loss first.
func (r *Owner) evictions() *Table {
	users := r.users(func(u Use) float64 { return u.Evictions + u.Yielded }, func(u Use) float64 { return u.Lost })
	if len(users) == 0 {
		return &Table{}
	}
	columns := names{"User", "Lost (GPU h)", "Evicted (GPU h)", "Checkpointed (%)", "Evictions", "Yielded"}
	return usesTable(columns, users, &r.Whole, func(u Use) []string {
		return []string{gpuHours(u.Lost), gpuHours(u.Evicted), share(u.Saved, u.Evictions), figure(u.Evictions, "", nil),
			figure(u.Yielded, "", nil)}
	})
}

// CSV writes every figure at full precision, with a row for each device, month and user, and one for all.
func (r *Owner) CSV(out io.Writer) error {
	if len(r.Machines) == 0 {
		return pool.BadQuery("report: no machine has the project %q, and --format csv has the figures of machines: use text "+
			"or html", r.Project)
	}
	w := csv.NewWriter(out)
	records := [][]string{{"by", "name", "ownedGpuHours", "ownGpuHours", "givenGpuHours", "elsewhereGpuHours", "evictions",
		"yielded", "lostGpuHours", "evictedGpuHours", "checkpointedPercent"}}
	for _, part := range []struct {
		by   string
		uses []Use
	}{{"all", []Use{r.Whole}}, {"device", r.Devices}, {"month", r.Months}, {"user", r.Users}} {
		for _, u := range part.uses {
			record := []string{part.by, clean(u.Name)}
			for _, figure := range u.figures()[:8] {
				record = append(record, fmt.Sprint(*figure))
			}
			checkpointed := ""
			if u.Evictions > 0 {
				checkpointed = fmt.Sprint(100 * u.Saved / u.Evictions)
			}
			records = append(records, append(record, checkpointed))
		}
	}
	return w.WriteAll(records)
}
