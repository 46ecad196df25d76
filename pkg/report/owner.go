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
	Notices        []string

	options Options
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

// figures returns the figures that can be added up.
func (u *Use) figures() []*float64 {
	return []*float64{&u.Owned, &u.Own, &u.Given, &u.Elsewhere, &u.Evictions, &u.Yielded, &u.Saved, &u.Lost, &u.Evicted}
}

// MakeOwner asks the data source. It fails if the project is unknown, with similar names, or if a query has no answer.
func MakeOwner(ctx context.Context, source backend.QueryDataHandler, project string, o Options) (*Owner, error) {
	if !o.From.Before(o.To) {
		return nil, pool.BadQuery("report: the end of the time range (%s) must be after its start (%s)",
			o.To.Format(time.RFC3339), o.From.Format(time.RFC3339))
	}
	r := &Owner{Project: project, options: o}
	whole := backend.TimeRange{From: o.From, To: o.To}
	found, err := r.ask(ctx, source, whole, ask("allocation", "machines", "limit", mostRows))
	if err != nil {
		return nil, err
	}
	if err := r.findMachines(found[0]); err != nil {
		return nil, err
	}
	a := account{owner: r, source: source}
	if r.Whole, err = a.of(ctx, whole); err != nil {
		return nil, err
	}
	r.Devices, r.Users = byName(a.devices), byName(a.users)
	months := monthsOf(whole, o.Zone)
	for i := 0; len(months) > 1 && i < len(months); i++ {
		month, err := a.of(ctx, months[i])
		if err != nil {
			return nil, err
		}
		month.Name = months[i].From.In(o.Zone).Format("2006-01")
		r.Months = append(r.Months, month)
	}
	return r, nil
}

const mostRows = 50_000

// ask asks queries over a window, and collects their notices.
func (r *Owner) ask(ctx context.Context, source backend.QueryDataHandler, window backend.TimeRange,
	queries ...func() query) ([]data.Frames, error) {
	request := &backend.QueryDataRequest{}
	for i, ask := range queries {
		if err := ask().addTo(request, strconv.Itoa(i), window, time.Hour); err != nil {
			return nil, err
		}
	}
	responses, err := answersTo(ctx, source, request)
	if err != nil {
		return nil, err
	}
	answers := make([]data.Frames, len(queries))
	for i := range queries {
		answer := responses[strconv.Itoa(i)]
		if answer.Error != nil {
			return nil, fmt.Errorf("the owner's figures: %w", answer.Error)
		}
		answers[i] = answer.Frames
		for _, n := range notices(answer.Frames) {
			if !slices.Contains(r.Notices, n) {
				r.Notices = append(r.Notices, n)
			}
		}
	}
	return answers, nil
}

// findMachines finds the project's machines among all machines.
func (r *Owner) findMachines(all data.Frames) error {
	known := map[string]bool{}
	for _, frame := range all {
		machine, projects := column(frame, "machine"), column(frame, "projects")
		for i := 0; projects != nil && i < projects.Len(); i++ {
			for _, project := range pool.Projects(text(projects, i)) {
				known[project] = true
				if project == r.Project {
					r.Machines = append(r.Machines, text(machine, i))
				}
			}
		}
	}
	if len(r.Machines) > 0 {
		return nil
	}
	near := nearest(r.Project, slices.Sorted(maps.Keys(known)))
	if len(near) == 0 {
		return pool.BadQuery("report: no machine has the project %q in this time range, nor any other project", r.Project)
	}
	return pool.BadQuery("report: no machine has the project %q in this time range; similar: %s", r.Project,
		strings.Join(near, ", "))
}

// nearest returns the few names that are most similar to a text, ignoring case.
func nearest(wanted string, names []string) []string {
	const few = 5
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(distance(wanted, a), distance(wanted, b))
	})
	return names[:min(len(names), few)]
}

// distance counts the letters to change, insert or delete to turn one text into the other (Levenshtein).
func distance(a, b string) int {
	from, to := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	row := make([]int, len(to)+1)
	for k := range row {
		row[k] = k
	}
	for i, letter := range from {
		before := row[0]
		row[0] = i + 1
		for k, other := range to {
			changed := before
			if letter != other {
				changed++
			}
			before, row[k+1] = row[k+1], min(changed, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(to)]
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

// account adds up the use of an owner's machines; devices and users are for the last window.
type account struct {
	owner          *Owner
	source         backend.QueryDataHandler
	devices, users map[string]*Use
}

func (a *account) of(ctx context.Context, window backend.TimeRange) (Use, error) {
	a.devices, a.users = map[string]*Use{}, map[string]*Use{}
	project := []string{a.owner.Project}
	here, there := literal(project, ""), literal(project, "!")
	hours := func(f filter) func() query {
		return ask("userHours", "summary", "groupBy", names{"device"}, "filter", f, "limit", mostRows)
	}
	answers, err := a.owner.ask(ctx, a.source, window,
		ask("allocation", "summary", "groupBy", names{"device"}, "metrics", names{"available", "drained"}, "totals", false,
			"filter", filter{"projects": here, "slots": names{"Real"}}),
		hours(filter{"projects": here, "slots": names{"Real"}}), hours(filter{"projects": here, "slots": names{"Backfill"}}),
		ask("evictions", "summary", "groupBy", names{"device", "user"}, "filter", filter{"projects": here}, "metrics",
			append(names{"yielded"}, lossFigures...), "totals", false, "limit", mostRows))
	if err != nil {
		return Use{}, err
	}
	for _, frame := range answers[0] {
		device, covered := column(frame, "device"), stat(frame, "Covered hours (D)")
		for i := 0; device != nil && i < device.Len(); i++ {
			gpus := number(column(frame, "available"), i) + number(column(frame, "drained"), i)
			named(a.devices, text(device, i)).Owned += gpus * covered
		}
	}
	a.add(answers[1], func(u *Use) *float64 { return &u.Own })
	a.add(answers[2], func(u *Use) *float64 { return &u.Given })
	a.addEvictions(answers[3])
	var owners []string
	for name, u := range a.users {
		if u.Own > 0 && name != "Unknown" {
			owners = append(owners, name)
		}
	}
	if slices.Sort(owners); len(owners) > 0 {
		elsewhere := hours(filter{"projects": there, "users": literal(owners, "")})
		if answers, err = a.owner.ask(ctx, a.source, window, elsewhere); err != nil {
			return Use{}, err
		}
		a.add(answers[0], func(u *Use) *float64 { return &u.Elsewhere })
	}
	whole := Use{Name: "All"}
	for _, u := range byName(a.devices) {
		to := whole.figures()
		for i, figure := range u.figures() {
			*to[i] += *figure
		}
	}
	return whole, nil
}

// add adds GPU hours by device and user.
func (a *account) add(answer data.Frames, to func(*Use) *float64) {
	for _, frame := range answer {
		device, user, hours := column(frame, "device"), column(frame, "user"), column(frame, "gpuHours")
		for i := 0; hours != nil && i < hours.Len(); i++ {
			switch text(column(frame, rowType), i) {
			case "group":
				*to(named(a.devices, text(device, i))) += number(hours, i)
			case "user":
				*to(named(a.users, text(user, i))) += number(hours, i)
			}
		}
	}
}

// addEvictions adds the cost of evictions, by device and user.
func (a *account) addEvictions(answer data.Frames) {
	for _, frame := range answer {
		device, user := column(frame, "device"), column(frame, "user")
		for i := 0; device != nil && i < device.Len(); i++ {
			for _, u := range []*Use{named(a.devices, text(device, i)), named(a.users, text(user, i))} {
				evictions := number(column(frame, "evictions"), i)
				u.Evictions += evictions
				u.Yielded += number(column(frame, "yielded"), i)
				u.Lost += number(column(frame, "lostGpuHours"), i)
				u.Evicted += number(column(frame, "evictedGpuHours"), i)
				if evictions > 0 {
					u.Saved += math.Round(evictions * number(column(frame, "checkpointedPercent"), i) / 100)
				}
			}
		}
	}
}

// literal returns filter entries that match the values literally.
func literal(values []string, before string) []string {
	entries := make([]string, len(values))
	for i, v := range values {
		if before == "" && strings.HasPrefix(v, "!") {
			v = `\` + v
		}
		entries[i] = before + v
	}
	return entries
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

func named(all map[string]*Use, name string) *Use {
	if all[name] == nil {
		all[name] = &Use{Name: name}
	}
	return all[name]
}

func byName(all map[string]*Use) (list []Use) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list
}

// Report formats the account for readers.
func (r *Owner) Report() *Report {
	l := layout{options: r.options, zone: r.options.Zone}
	made := &Report{Title: "GPUs of " + clean(r.Project), Subtitle: l.window(), Notices: r.Notices,
		Facts: []Fact{{"Machines", strconv.Itoa(len(r.Machines))}, {"Generated", l.time(r.options.Now) + " " + l.zoneName()}}}
	add := func(key, title, about string, table *Table) {
		block := Block{Caption: title, Table: table}
		if len(table.Rows) == 0 {
			block.Table, block.Empty = nil, "Nothing was used."
		}
		made.Sections = append(made.Sections, Section{Key: key, Title: title, About: about, Blocks: []Block{block}})
	}
	add("devices", "By device", "Owned: GPU hours of real slots that could be allocated or were drained. Own use: hours "+
		"held on these slots. Given: hours that others held on their backfill slots. Used elsewhere: hours that the users "+
		"of the real slots held on other machines.", r.table("Device", append(slices.Clone(r.Devices), r.Whole)))
	if len(r.Months) > 0 {
		add("months", "By month", "Each month has its own slices and covered hours.", r.table("Month", r.Months))
	}
	add("own", "Own use by user", "", r.byUser(func(u Use) float64 { return u.Own }))
	add("given", "Given to others by user", "", r.byUser(func(u Use) float64 { return u.Given }))
	add("elsewhere", "Used elsewhere by user", "", r.byUser(func(u Use) float64 { return u.Elsewhere }))
	add("evictions", "What evictions cost the users of backfill slots", "Lost: GPU hours of evicted runs since their "+
		"jobs' last checkpoints. Evicted: GPU hours of the whole runs. Jobs that yield have saved their work and lose "+
		"nothing.",
		r.evictions())
	return made
}

func gpuHours(x float64) string { return thousands(strconv.FormatFloat(x, 'f', 1, 64)) }

// share returns a part of the owned GPU hours, in percent.
func share(part, owned float64) string {
	if owned == 0 {
		return none
	}
	return strconv.FormatFloat(100*part/owned, 'f', 1, 64)
}

// table shows all figures; for devices, the last row is the total.
func (r *Owner) table(name string, uses []Use) *Table {
	t := &Table{Columns: []Column{{Name: name}, {"Owned (GPU h)", true}, {"Own use (GPU h)", true}, {"Own use (%)", true},
		{"Given (GPU h)", true}, {"Given (%)", true}, {"Used elsewhere (GPU h)", true}}}
	for i, u := range uses {
		row := Row{Cells: []string{clean(u.Name), gpuHours(u.Owned), gpuHours(u.Own), share(u.Own, u.Owned),
			gpuHours(u.Given), share(u.Given, u.Owned), gpuHours(u.Elsewhere)}}
		if name == "Device" && i == len(uses)-1 {
			row.Kind = Total
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// byUser lists one figure by user, largest first.
func (r *Owner) byUser(of func(Use) float64) *Table {
	t := &Table{Columns: []Column{{Name: "User"}, {"GPU h", true}, {"Of owned (%)", true}}}
	users := slices.DeleteFunc(slices.Clone(r.Users), func(u Use) bool { return of(u) == 0 })
	slices.SortStableFunc(users, func(a, b Use) int { return cmp.Compare(of(b), of(a)) })
	for _, u := range users {
		t.Rows = append(t.Rows, Row{Cells: []string{clean(u.Name), gpuHours(of(u)), share(of(u), r.Whole.Owned)}})
	}
	return t
}

// evictions lists the cost of evictions by user, largest loss first.
func (r *Owner) evictions() *Table {
	t := &Table{Columns: []Column{{Name: "User"}, {"Lost (GPU h)", true}, {"Evicted (GPU h)", true},
		{"Checkpointed (%)", true}, {"Evictions", true}, {"Yielded", true}}}
	users := slices.DeleteFunc(slices.Clone(r.Users), func(u Use) bool { return u.Evictions+u.Yielded == 0 })
	slices.SortStableFunc(users, func(a, b Use) int { return cmp.Compare(b.Lost, a.Lost) })
	if len(users) == 0 {
		return t
	}
	for i, u := range append(users, r.Whole) {
		row := Row{Cells: []string{clean(u.Name), gpuHours(u.Lost), gpuHours(u.Evicted), share(u.Saved, u.Evictions),
			figure(u.Evictions, "", nil), figure(u.Yielded, "", nil)}}
		if i == len(users) {
			row.Kind = Total
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// CSV writes every figure at full precision, with a row for each device, month and user, and one for all.
func (r *Owner) CSV(out io.Writer) error {
	w := csv.NewWriter(out)
	records := [][]string{{"by", "name", "ownedGpuHours", "ownGpuHours", "givenGpuHours", "elsewhereGpuHours", "evictions",
		"yielded", "lostGpuHours", "evictedGpuHours", "checkpointedPercent"}}
	for _, part := range []struct {
		by   string
		uses []Use
	}{{"all", []Use{r.Whole}}, {"device", r.Devices}, {"month", r.Months}, {"user", r.Users}} {
		for _, u := range part.uses {
			record := []string{part.by, clean(u.Name)}
			for _, x := range []float64{u.Owned, u.Own, u.Given, u.Elsewhere, u.Evictions, u.Yielded, u.Lost, u.Evicted} {
				record = append(record, strconv.FormatFloat(x, 'g', -1, 64))
			}
			checkpointed := ""
			if u.Evictions > 0 {
				checkpointed = strconv.FormatFloat(100*u.Saved/u.Evictions, 'g', -1, 64)
			}
			record = append(record, checkpointed)
			records = append(records, record)
		}
	}
	return w.WriteAll(records)
}
