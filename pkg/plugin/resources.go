package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/resource/httpadapter"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// CallResource answers GET /values/{dimension} and GET /range.
func (d *Datasource) CallResource(ctx context.Context, req *backend.CallResourceRequest,
	sender backend.CallResourceResponseSender) error {
	naming, mux := d.naming(req.PluginContext.User, false), http.NewServeMux()
	mux.HandleFunc("GET /values/{dimension}", d.resource(func(header http.Header, r *http.Request) (any, error) {
		return d.values(naming, header, r)
	}))
	mux.HandleFunc("GET /range", d.resource(d.dataRange))
	mux.HandleFunc("/", d.resource(func(_ http.Header, r *http.Request) (any, error) {
		return nil, notFound{fmt.Errorf("unknown resource %s; valid: GET /values/{dimension} and GET /range",
			r.URL.Path)}
	}))
	return httpadapter.New(mux).CallResource(ctx, req, sender)
}

type notFound struct{ error }

// resource writes a function's result as JSON; of an error its text as `message`.
func (d *Datasource) resource(get func(header http.Header, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var result any
		err := parallel.Recovered(func() (err error) {
			result, err = get(w.Header(), r)
			return err
		})
		if err != nil {
			status := int(failure(err).Status)
			if errors.As(err, new(notFound)) {
				status = http.StatusNotFound
			}
			logFailure(backend.Logger.FromContext(r.Context()).With("path", r.URL.Path, "status", status), "resource failed",
				err)
			w.WriteHeader(status)
			result = map[string]string{"message": d.redact(err).Error()}
		}
		if err := json.NewEncoder(w).Encode(result); err != nil {
			backend.Logger.FromContext(r.Context()).Warn("resource not sent", "path", r.URL.Path, "error", err)
		}
	}
}

// option is a value of a dimension, for editors and variables.
type option struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

const (
	mostOptions      = 5000
	headerTruncated  = "X-Truncated" // the number of values when there are more than mostOptions
	defaultLookBack  = 7 * pool.Day
	millisecond      = pool.Second / 1000
	earliest, latest = -62_135_596_800_000, 253_402_300_799_999
)

// valuesCatalog is the question for values, which knows every filter of GPUs and users.
var valuesCatalog = query.Catalog{{Name: "values", Views: []query.View{query.ListView("values", "Values",
	"What there is to choose", query.UserFilters)}}}

// values lists a dimension's values in a window: from, to in ms (default: the newest 7 days), filter as in queries.
func (d *Datasource) values(naming query.Naming, header http.Header, r *http.Request) (any, error) {
	// Read the dimension and the filter.
	dimension := r.PathValue("dimension")
	find, dimensions, of := d.poolValues, query.Dimensions, ""
	if d.parsed.Mode == modeFleet {
		find, dimensions, of = d.fleetValues, fleet.Dimensions, " for a fleet"
	}
	if !slices.Contains(dimensions, dimension) {
		return nil, notFound{fmt.Errorf("unknown dimension %q%s; valid values: %s", dimension, of,
			strings.Join(dimensions, ", "))}
	}
	filter, err := query.ParseFilter(json.RawMessage(r.URL.Query().Get("filter")))
	if err != nil {
		return nil, err
	}
	// Find the values, in the newest days unless the request names a window.
	options, err := lookUp(r.Context(), func(ctx context.Context) ([]option, error) {
		options := []option{}
		_, newest, ok, err := d.reach(ctx)
		if err != nil || !ok {
			return options, err
		}
		window := pool.Window{From: newest - defaultLookBack, To: newest}
		if err := cmp.Or(readMillis(r, "from", &window.From), readMillis(r, "to", &window.To)); err != nil {
			return nil, err
		}
		values, plan, err := find(ctx, naming, dimension, filter, window)
		for _, value := range values {
			options = append(options, optionOf(plan, dimension, value))
		}
		return options, err
	})
	if err != nil {
		return nil, err
	}
	if len(options) > mostOptions {
		header.Set(headerTruncated, strconv.Itoa(len(options)))
		options = options[:mostOptions]
	}
	return options, nil
}

// poolValues returns a dimension's values in a window as answers show them, from the pool's snapshots, in the order of
// tables.
func (d *Datasource) poolValues(ctx context.Context, naming query.Naming, dimension string, filter query.Filter,
	window pool.Window) ([]string, *query.Plan, error) {
	stores, done, err := d.use(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	env, err := stores.env(ctx)
	if err != nil {
		return nil, nil, err
	}
	env.Naming = naming
	plan, err := valuesCatalog.Plan(query.Request{Window: window,
		Model: query.Model{QueryType: "values", Filter: filter}}, env)
	if err != nil {
		return nil, nil, err
	}
	found, err := stores.values(ctx, plan, dimension)
	compare := func(a, b string) int { return query.CompareValues(dimension, a, b) }
	return slices.SortedFunc(maps.Keys(found), compare), plan, err
}

// values returns the values of a dimension that answers to a plan show.
func (s *opened) values(ctx context.Context, plan *query.Plan, dimension string) (map[string]bool, error) {
	switch g, _ := query.GroupingOf(dimension); g {
	case query.ByOwnGPUs, query.ByUsedMemory: // words of the query model
		words := map[string]bool{}
		for _, word := range query.Groupings[g].Values {
			words[word] = true
		}
		return words, nil
	case query.BySchedd, query.ByJobProject:
		rows, err := s.Queues.Load(ctx, plan.Window)
		if err != nil {
			return nil, err
		}
		return queuedValues(g, rows, plan), nil
	}
	view, err := s.Timeline.Load(ctx, plan.Window.From, plan.Window.To)
	if err != nil {
		return nil, err
	}
	return dimensionValues(ctx, view, plan, dimension)
}

// queuedValues returns the access points with jobs that waited in the plan's window, or the projects of jobs with rows
// in it, of the users that its filter chooses: "" if there is a job without one.
func queuedValues(g query.Grouping, view *queues.View, plan *query.Plan) map[string]bool {
	found := map[string]bool{}
	if g == query.ByJobProject && view.Files > 0 {
		found[query.Unknown] = true // jobs that are not in the files
	}
	for _, day := range view.Days {
		for i := range day.Rows {
			r := &day.Rows[i]
			if pool.Micros(r.First)*pool.Second > plan.Window.To || pool.Micros(r.Last)*pool.Second < plan.Window.From ||
				!plan.Select.Match(query.ByUser, view.Names.Text(r.Owner)) {
				continue
			}
			list := view.Names.Text(r.Project)
			if g == query.BySchedd {
				if plan.Select.Match(query.ByProject, list) {
					found[view.Names.Text(r.Schedd)] = true
				}
				continue
			}
			projects := pool.Projects(list)
			if len(projects) == 0 {
				found[""] = true
			}
			for _, project := range projects {
				found[project] = true
			}
		}
	}
	return found
}

// optionOf is a value of a dimension, given as answers show it, as filters take it: a category's key.
func optionOf(plan *query.Plan, dimension, value string) option {
	if value == "" { // a filter's list takes no empty text, but a pattern of it
		return option{Text: frames.Nameless(plan, dimension), Value: "/^$/"}
	}
	if category, ok := pool.ParseCategory(value); ok && dimension == "category" {
		return option{Text: category.String(), Value: category.Key()}
	}
	return option{Text: value, Value: value}
}

// dataRange returns from when to when there are snapshots, in whole ms around them; all null if there is none.
func (d *Datasource) dataRange(_ http.Header, r *http.Request) (any, error) {
	return lookUp(r.Context(), func(ctx context.Context) (any, error) {
		first, newest, ok, err := d.reach(ctx)
		if err != nil {
			return nil, err
		}
		var answer struct {
			From   *int64 `json:"from"`
			To     *int64 `json:"to"`
			Newest *int64 `json:"newest"`
		}
		if ok {
			from, to := first/millisecond, (newest+millisecond-1)/millisecond // so that it holds every snapshot
			answer.From, answer.To, answer.Newest = &from, &to, &to
		}
		return answer, nil
	})
}

// reach returns from when to when there are snapshots, or hours that any of many pools has published.
func (d *Datasource) reach(ctx context.Context) (first, newest pool.Micros, ok bool, err error) {
	if d.parsed.Mode == modeFleet {
		points, err := d.pools(ctx)
		for i, p := range points {
			if since := facts.Micros(p.Since); i == 0 || since < first {
				first = since
			}
			newest = max(newest, facts.Micros(p.Through))
		}
		return first, newest, len(points) > 0, err
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	defer done()
	return stores.Timeline.Range(ctx)
}

// readMillis sets t to a parameter in milliseconds, if it is given.
func readMillis(r *http.Request, name string, t *pool.Micros) error {
	text := r.URL.Query().Get(name)
	if text == "" {
		return nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < earliest || ms > latest {
		return pool.BadQuery("%s %q is not a time; expected milliseconds since 1970, of the years 1 to 9999", name, text)
	}
	*t = ms * millisecond
	return nil
}

// dimensionValues returns the values that a dimension has within the plan's window and filter, as answers show them; of
// projects single ones.
func dimensionValues(ctx context.Context, view *timeline.View, plan *query.Plan, dimension string) (map[string]bool,
	error) {
	grouping, owners, sides := dimension, dimension == "takenOverBy", []pool.Side{pool.Primary, pool.Backfill}
	if owners { // only users of primary slots take over
		grouping, sides = "user", sides[:1]
	}
	// Collect the groups of all rows that pass the filter.
	names := view.Names.Texts()
	classify := counts.NewClassifier(plan, names, grouping)
	claimed := grouping == "user" || !plan.Select.All(query.ByUser)
	found := map[aggregate.Key]bool{}
	add := func(gpu counts.GPUClass, side pool.Side, row *timeline.Row, further []timeline.Claim) {
		users, passes := holders(row, further, side, claimed), false
		for _, user := range users {
			if key, counts := classify.KeyOf(&gpu, side, row, timeline.Holder{User: user}); counts {
				found[key], passes = true, true
			}
		}
		for _, user := range users {
			if owners && passes { // the filter chooses rows, not whom they name
				found[aggregate.Key{query.ByUser: uint32(user)}] = true
			}
		}
	}
	first, end := view.Snapshots(plan.Window)
	for i, day := range view.Days {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, to := max(first-view.Base[i], 0), min(end-view.Base[i], len(day.Times))
		for n, gpu := range classify.GPUs(day) {
			for span := range day.SpansIn(n, from, to) {
				rows, further := day.StatusRows(span.Status), day.FurtherClaims(span.Status)
				for _, side := range sides {
					add(gpu, side, rows[side], further)
				}
			}
		}
	}
	// Turn the groups into texts; a list of projects becomes its members.
	values := map[string]bool{}
	for key := range found {
		text := key.Texts(plan, []string{grouping}, names)[0]
		switch {
		case dimension == "project" && text != "":
			for _, project := range pool.Projects(text) {
				values[project] = true
			}
		case dimension == "project" || text != "": // GPUs without a project are a group of their own
			values[text] = true
		}
	}
	return values, nil
}

// holders are the users by which a row on a side is grouped. With claimed, only claims matter.
func holders(row *timeline.Row, further []timeline.Claim, side pool.Side, claimed bool) (users []timeline.Symbol) {
	if row.State == pool.Claimed || row.State != pool.None && !claimed {
		users = append(users, row.User)
	}
	for _, claim := range further {
		if claim.Side == side && row.State != pool.None {
			users = append(users, claim.User)
		}
	}
	return users
}
