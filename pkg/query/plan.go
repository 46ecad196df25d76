package query

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
)

// Request is a query with the other parameters of one call.
type Request struct {
	Model
	Asked       Asked `json:"-"` // what the model names, if it was looked up
	Window      pool.Window
	IntervalMs  int64 // the distance of points that the panel can show
	FromAlert   bool
	OnDashboard bool // requested by a dashboard's panel
	Now         pool.Micros
}

// Env is the part of a request that comes from the data source's settings.
type Env struct {
	Zone         *localtime.Zone
	SliceMinutes int // 0: every snapshot is its own slice
	YearStart    int // the month with which years begin, 1 to 12; 0: January
	Lists        pool.Lists
	Naming       Naming // how the user of the query sees users and jobs
	LinksFrom    string // UID of the data source whose tables link to the shipped dashboards; "": none do
}

// Plan is a request that can be answered: checked, with its defaults filled in.
type Plan struct {
	Request    // as given; fields that Plan has too are Plan's
	Kind, View string
	GroupBy    []string // also the table's group columns and the series' labels
	Metrics    []string
	Frame      string // shape of the answer: FrameSeries, FrameTable, …
	Numeric    bool   // a table with one number, for alert rules: no totals, no rowType, no nulls
	Totals     bool
	Select     Selection         // the filter, compiled
	Bucket     *localtime.Bucket // for a series; nil = the whole window
	Location   *time.Location    // for calendar buckets and hours of the week
	Duration   string            // tenure or vacancy, if the view has the option
	JobHours   []float64         // if the view has the option
	Overhead   float64           // minutes of a checkpoint
	Within     float64           // minutes of withinPercent, if the view has the option
	Short      float64           // minutes within which a run fails at once, if the view has the option
	Legend     Legend            // if the view has the option
	Window     pool.Window
	Previous   bool // Window is the period of the same length before the requested one
	Env        Env
	Words      map[string]map[string]string // how this answer shows values of columns that are no groupings, by both

	kind  *Kind
	view  *View
	names map[string]NameKind // by column
}

// Plan checks a request and fills in its defaults. Errors are pool.BadQuery and list the valid values.
func (c Catalog) Plan(r Request, env Env) (*Plan, error) {
	var err error
	if r.Asked.View == nil {
		if r.Asked, err = c.Find(r.QueryType, r.View); err != nil {
			return nil, err
		}
	}
	kind, view := r.Asked.Kind, r.Asked.View
	p := &Plan{
		Request: r, Kind: kind.Name, View: view.Name, Frame: view.Frame, GroupBy: r.GroupBy, Metrics: r.Metrics,
		Window: r.Window, Env: env,
		kind: kind, view: view, names: r.Asked.Names(),
	}
	if r.Window.To < r.Window.From {
		return nil, pool.BadQuery("the time range ends (%s) before it starts (%s)", text(r.Window.To), text(r.Window.From))
	}
	// Choose the window: the requested one, a time up to now, or the period before.
	interval := time.Duration(r.IntervalMs) * time.Millisecond
	if r.Last != "" && p.knows("last") {
		long, err := lastOf(r.Last)
		if err != nil {
			return nil, pool.BadQuery("%s: %w", p.name(), err)
		}
		p.Window = pool.Window{From: r.Now - long.Microseconds(), To: r.Now}
		interval = long / pointsOfLast
	}
	if p.Previous = r.Previous && p.knows("previous"); p.Previous {
		p.Window = pool.Window{From: 2*r.Window.From - r.Window.To - 1, To: r.Window.From - 1}
	}
	// Check the words of the query, and compile its filter.
	if r.Limit < 0 {
		return nil, pool.BadQuery("limit %d is negative: 0 is the view's own limit", r.Limit)
	}
	if err := p.words(); err != nil {
		return nil, err
	}
	if r.FromAlert && view.Alerting != AlertSeries && !p.Numeric {
		return nil, pool.BadQuery("%s: %s", p.name(), c.whatAlerts(view))
	}
	if err := c.checkFilter(p); err != nil {
		return nil, err
	}
	if p.Select, err = r.Filter.compile(r.IncludeOldDevices == nil || *r.IncludeOldDevices); err != nil {
		return nil, err
	}
	p.Select.naming = &p.Env.Naming
	if view.OfJobs {
		p.Select.owners = env.Lists.Owners()
	}
	if err := p.calendar(interval); err != nil {
		return nil, err
	}
	if err := p.legend(); err != nil {
		return nil, err
	}
	return p, p.options()
}

// pointsOfLast is how many points a series of a fixed time up to now has at least if its slices allow it: Grafana's
// interval is of the time range, which such a series does not depend on.
const pointsOfLast = 200

const longestLast = 10 * 366 * 24 * time.Hour

var lastForm = regexp.MustCompile(`^([1-9]\d{0,4})([hd])$`)

// lastOf reads a length of time such as 6h or 2d.
func lastOf(text string) (time.Duration, error) {
	if m := lastForm.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1]) // up to five digits
		long := time.Duration(n) * time.Hour
		if m[2] == "d" {
			long *= 24
		}
		if long <= longestLast {
			return long, nil
		}
	}
	return 0, fmt.Errorf("last %q is not a time up to now; valid: hours or days such as 6h or 2d, up to ten years", text)
}

func (p *Plan) name() string { return p.Kind + "/" + p.View }

func (p *Plan) words() error {
	if err := p.groupings(); err != nil {
		return err
	}
	if err := several(p.name()+": metric", p.Metrics, p.view.Metrics); err != nil {
		return err
	}
	if len(p.Metrics) == 0 {
		p.Metrics = slices.Clone(p.view.DefaultMetrics)
		for _, grouping := range p.GroupBy {
			p.Metrics = append(p.Metrics, p.view.Beside[grouping]...)
		}
	}
	single, totals := len(p.Model.Metrics) == 1, p.Model.Totals
	p.Totals = p.knows("totals") && (totals == nil && !single || totals != nil && *totals)
	p.Numeric = p.view.Alerting == AlertSingleMetric && single && !p.Totals
	return nil
}

// groupings checks the groupings, and adds those that the view always has.
func (p *Plan) groupings() error {
	if p.GroupBy == nil && len(p.view.GroupBy) > 0 {
		p.GroupBy = p.kind.DefaultGroupBy
	}
	if groups := p.view.Groups; groups != nil {
		if p.Model.GroupBy == nil {
			p.GroupBy = groups[0]
		}
		if !slices.ContainsFunc(groups, func(by []string) bool { return slices.Equal(by, p.GroupBy) }) {
			possible := each(len(groups), func(i int) string { return "[" + strings.Join(groups[i], ", ") + "]" })
			return pool.BadQuery("%s: the groupings [%s] are not supported here; valid: %s", p.name(),
				strings.Join(p.GroupBy, ", "), strings.Join(possible, ", "))
		}
	}
	if err := several(p.name()+": grouping", p.GroupBy, p.view.GroupBy); err != nil {
		return err
	}
	if p.view.Sides && !slices.Contains(p.GroupBy, "category") && !slices.Contains(p.GroupBy, "slots") {
		p.GroupBy = append(slices.Clone(p.GroupBy), "slots") // real and backfill are never added
	}
	if always := p.view.Always; always != "" && !slices.Contains(p.GroupBy, always) {
		p.GroupBy = append([]string{always}, p.GroupBy...)
	}
	return nil
}

// knows reports whether an option of the query means something in the view.
func (p *Plan) knows(option string) bool { return slices.Contains(p.view.Options, option) }

// calendar chooses the bucket and the place whose calendar it follows.
func (p *Plan) calendar(interval time.Duration) error {
	if p.Model.Bucket != "" {
		if err := one("bucket", p.Model.Bucket, BucketNames); err != nil {
			return err
		}
	}
	var err error
	if p.view.Frame == FrameSeries || p.view.Frame == FrameStateTimeline {
		if p.Bucket, err = p.chooseBucket(p.Model.Bucket, interval); err != nil {
			return err
		}
	}
	p.Location = p.Env.Zone.Calendar()
	if p.Model.Timezone != "" {
		p.Location, err = p.Env.Zone.Database().Location(p.Model.Timezone)
	}
	return err
}

// Bounds of jobHours.
const (
	maxJobHours = 50
	longestJob  = 10_000.0
)

func (p *Plan) options() error {
	if p.knows("duration") {
		p.Duration = cmp.Or(p.Model.Duration, p.view.Duration)
		if err := one(p.name()+": duration", p.Duration, Durations); err != nil {
			return err
		}
	}
	if p.knows("jobHours") {
		if p.JobHours = p.Model.JobHours; len(p.JobHours) == 0 {
			p.JobHours = p.view.JobHours
		}
		if len(p.JobHours) > maxJobHours {
			return pool.BadQuery("%s: jobHours: at most %[3]d lengths; got %[2]d", p.name(), len(p.JobHours), maxJobHours)
		}
		for i, hours := range p.JobHours {
			if !(hours > 0 && hours <= longestJob) {
				return pool.BadQuery("%s: jobHours %v is not a job length; valid: numbers above 0, up to %v", p.name(),
					hours, longestJob)
			}
			if slices.Contains(p.JobHours[:i], hours) {
				return pool.BadQuery("%s: jobHours %v is named twice", p.name(), hours)
			}
		}
	}
	var err error
	if p.Within, err = p.minutes("withinMinutes", &p.Model.WithinMinutes, 10, 1, 10_080); err != nil {
		return err
	}
	if p.Short, err = p.minutes("shortMinutes", &p.Model.ShortMinutes, 10, 1, 1_440); err != nil {
		return err
	}
	if p.knows("overheadMinutes") {
		p.Overhead, err = p.minutes("overheadMinutes", &p.Model.OverheadMinutes, 5, 0, 100_000)
	}
	return err
}

// minutes fills in the default of an option in minutes, and returns the option; 0 if the view does not have it.
func (p *Plan) minutes(option string, given **float64, byDefault, least, most float64) (float64, error) {
	switch {
	case !p.knows(option) && *given != nil:
		return 0, pool.BadQuery("%s: %s is not supported here", p.name(), option)
	case !p.knows(option):
		return 0, nil
	case *given == nil:
		*given = &byDefault
	case !(**given >= least && **given <= most):
		return 0, pool.BadQuery("%s: %s must be %v to %v; got %v", p.name(), option, least, most, **given)
	}
	return **given, nil
}

// WithNulls returns the plan for a table with one number that keeps the groups without a value, unless an alert rule
// asks: it knows no nulls.
func (p *Plan) WithNulls() *Plan {
	with := *p
	with.Numeric = p.Numeric && p.FromAlert
	return &with
}

// Column returns how a column is shown in the answer. Metrics of the period before say so.
func (p *Plan) Column(name string) Column {
	c := p.kind.Column(p.view, name)
	if p.Previous && slices.Contains(p.Metrics, name) {
		c.Label += ", period before"
	}
	return c
}

func (c Catalog) checkFilter(p *Plan) error {
	possible := "none"
	if len(p.view.Filters) > 0 {
		possible = strings.Join(p.view.Filters, ", ")
	}
	filter := p.Filter
	err := filter.lists(func(_ Grouping, name string, values *[]string) error {
		if len(*values) > 0 && !slices.Contains(p.view.Filters, name) {
			return pool.BadQuery("%s: filter.%s is not supported here; valid filters: %s", p.name(), name, possible)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if filter.Idle && !slices.Contains(p.view.Filters, "idle") {
		knows := c.views(func(v *View) (string, bool) { return "", slices.Contains(v.Filters, "idle") })
		return pool.BadQuery("%s: filter.idle is only supported by %s; valid filters: %s", p.name(),
			strings.Join(knows, ", "), possible)
	}
	if len(filter.Users) > 0 && !p.view.ofUsers(p.Model.Metrics) {
		return pool.BadQuery("%s: filter.users requires %s as the only metric, because an unclaimed GPU has no user",
			p.name(), strings.Join(p.view.UserMetrics, " or "))
	}
	return nil
}

// ofUsers reports whether the metrics that a query names can be of chosen users.
func (v *View) ofUsers(metrics []string) bool {
	return len(v.UserMetrics) == 0 || len(metrics) == 1 && slices.Contains(v.UserMetrics, metrics[0])
}

// views returns the views that fit, as kind/view, each with its description.
func (c Catalog) views(fits func(*View) (said string, ok bool)) (names []string) {
	for i := range c {
		for k := range c[i].Views {
			if said, ok := fits(&c[i].Views[k]); ok {
				names = append(names, c[i].Name+"/"+c[i].Views[k].Name+said)
			}
		}
	}
	return names
}

// whatAlerts says how a view can be made to alert, or which views can.
func (c Catalog) whatAlerts(view *View) string {
	if view.Alerting == AlertSingleMetric {
		return "an alert rule needs exactly one number a group: name exactly one metric (and leave totals out)"
	}
	names := c.views(func(v *View) (string, bool) {
		if v.Alerting == AlertSingleMetric {
			return " with exactly one metric", true
		}
		return "", v.Alerting == AlertSeries
	})
	return "this view cannot be used in alert rules; valid: " + strings.Join(names, ", ")
}

func text(t pool.Micros) string { return pool.Time(t).Format(time.RFC3339Nano) }

// MaxRows bounds the rows of every table, and the series of every answer.
const MaxRows = 50_000

// Max is the effective limit: the query's, otherwise that of the view; never more than 50,000.
func (p *Plan) Max(ofView int) int {
	if p.Limit == 0 {
		return ofView
	}
	return min(p.Limit, MaxRows)
}

// Executed is the query with the resolved window, zone, bucket and defaults, for people to read.
func (p *Plan) Executed() string {
	bucket := ""
	switch {
	case p.Bucket != nil:
		bucket = p.Bucket.Name
	case p.Frame == FrameSeries:
		bucket = bucketWindow
	}
	m := p.Model
	m.QueryType, m.View, m.GroupBy, m.Bucket, m.Duration, m.JobHours = p.Kind, p.View, p.GroupBy, bucket, p.Duration,
		p.JobHours
	if p.Frame != FrameTable { // in a table one metric named is another question than all of one
		m.Metrics = p.Metrics
	}
	document, err := json.MarshalIndent(struct {
		From         string `json:"from"`
		To           string `json:"to"`
		Calendar     string `json:"calendar"`
		SliceMinutes int    `json:"sliceMinutes"`
		Query        Model  `json:"query"`
	}{text(p.Window.From), text(p.Window.To), p.Location.String(), p.Env.SliceMinutes, m}, "", "  ")
	if err != nil {
		return err.Error() // not reached: the model is plain data
	}
	return string(document)
}

// Question identifies everything that counts by groupings depend on except the data: slices, buckets, filter and lists.
func (p *Plan) Question(by []string) [sha256.Size]byte {
	bucket := "window"
	if p.Bucket != nil {
		bucket = pool.Key(p.Bucket.Name, p.Bucket.YearStart)
	}
	return sha256.Sum256([]byte(pool.Key(
		p.Env.Zone.Key(), p.Env.SliceMinutes, bucket, p.Location.String(), by, p.Filter, p.Env.Naming.Key,
		p.Select.OldDevices, p.Env.Lists.Key(),
	)))
}
