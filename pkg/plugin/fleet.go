package plugin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// errOfPool refuses queries that need a pool's snapshots.
var errOfPool = pool.BadQuery("the data source's mode is %s: it answers for many pools from their facts and has no "+
	"snapshots. Ask the data source of a pool", modeFleet)

// openedFleet has the open connections of a data source of many pools.
type openedFleet struct {
	*fleet.Store
	connections *http.Transport // nil: none
}

// Close closes the idle connections.
func (f *openedFleet) Close() error {
	if f.connections != nil {
		f.connections.CloseIdleConnections()
	}
	return nil
}

// useFleet returns the facts for one request, which must call done at its end.
func (d *Datasource) useFleet(ctx context.Context) (f *openedFleet, done func(), err error) {
	if d.invalid != nil {
		return nil, nil, d.invalid
	}
	taken, err := d.fleet.take(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	return taken.of, func() { d.fleet.leave(taken) }, nil
}

func openFleet(ctx context.Context, instance backend.DataSourceInstanceSettings, settings Settings) (*openedFleet,
	error) {
	transport, connections, err := openTransport(ctx, instance)
	if err != nil {
		return nil, err
	}
	store, err := fleet.Open(fleet.Config{URL: instance.URL, Transport: transport, Index: settings.FactsIndex})
	if err != nil {
		return nil, err
	}
	return &openedFleet{Store: store, connections: connections}, nil
}

// fleetEnv has the settings for answers from facts, which are of full hours.
func (d *Datasource) fleetEnv(naming query.Naming) query.Env {
	return query.Env{Zone: d.parsed.zone, SliceMinutes: 60, YearStart: d.parsed.FiscalYearStart, Naming: naming}
}

// computeFleet answers a query from the facts of many pools.
func (d *Datasource) computeFleet(ctx context.Context, naming query.Naming, r query.Request) (data.Frames, error) {
	store, done, err := d.useFleet(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return store.Answer(ctx, kinds.Catalog, d.fleetEnv(naming), r)
}

// fleetValues lists a dimension's values in a window, from the pools' facts.
func (d *Datasource) fleetValues(ctx context.Context, naming query.Naming, dimension string, filter query.Filter,
	r *http.Request) ([]option, error) {
	if !slices.Contains(fleet.Dimensions, dimension) {
		return nil, notFound{fmt.Errorf("unknown dimension %q for a fleet; valid values: %s", dimension,
			strings.Join(fleet.Dimensions, ", "))}
	}
	store, done, err := d.useFleet(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	points, err := store.Pools(ctx)
	if err != nil || len(points) == 0 {
		return []option{}, err
	}
	_, newest := reach(points)
	window := pool.Window{From: newest - defaultLookBack, To: newest}
	if err := readMillis(r, parameterFrom, &window.From); err != nil {
		return nil, err
	}
	if err := readMillis(r, parameterTo, &window.To); err != nil {
		return nil, err
	}
	values, plan, err := store.Values(ctx, d.fleetEnv(naming), dimension, filter, window)
	if err != nil {
		return nil, err
	}
	options := make([]option, 0, len(values))
	for _, v := range values {
		shown := plan.Shown(dimension, v)
		o := option{Text: shown, Value: shown}
		if category, ok := pool.ParseCategory(v); ok && dimension == "category" {
			o = option{Text: category.String(), Value: category.Key()}
		}
		if shown == "" { // a filter's list takes no empty text, but a pattern of it
			o = option{Text: frames.Nameless(plan.Column(dimension).Label), Value: "/^$/"}
		}
		options = append(options, o)
	}
	if dimension == "user" && naming.User != nil { // the order of names would reveal whose pseudonym it is
		slices.SortFunc(options, func(a, b option) int { return query.CompareValues(dimension, a.Text, b.Text) })
	}
	return options, nil
}

// fleetRange returns the beginning of the first and the end of the newest hour that any pool has published.
func (d *Datasource) fleetRange(ctx context.Context) (from, to pool.Micros, ok bool, err error) {
	store, done, err := d.useFleet(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	defer done()
	points, err := store.Pools(ctx)
	if err != nil || len(points) == 0 {
		return 0, 0, false, err
	}
	from, to = reach(points)
	return from, to, true, nil
}

// reach is the time that the facts of any of the pools are of.
func reach(points []facts.Checkpoint) (from, to pool.Micros) {
	from, to = facts.Micros(points[0].Since), facts.Micros(points[0].Through)
	for _, p := range points {
		from, to = min(from, facts.Micros(p.Since)), max(to, facts.Micros(p.Through))
	}
	return from, to
}

// lateFacts is the age of a pool's newest facts from which its publishing counts as stopped.
const lateFacts = 4 * time.Hour

// fleetFindings report how far the facts of each pool reach.
func (d *Datasource) fleetFindings(ctx context.Context) []finding {
	store, done, err := d.useFleet(ctx)
	if err != nil {
		return []finding{{Store: "facts", Severity: severityError, Text: err.Error()}}
	}
	defer done()
	points, err := store.Pools(ctx)
	switch {
	case err != nil:
		return []finding{{Store: "facts", Severity: severityError, Text: err.Error()}}
	case len(points) == 0:
		return []finding{{Store: "facts", Severity: severityWarning, Text: fmt.Sprintf("facts: no pool has published any "+
			"under %s. Run gpureports publish for each of them", d.parsed.FactsIndex)}}
	}
	var findings []finding
	for _, p := range points {
		through := pool.Time(facts.Micros(p.Through))
		found := finding{Store: "facts", Severity: severityOK, Details: map[string]any{"pool": p.Pool,
			"since": pool.Time(facts.Micros(p.Since)), "through": through, "timezone": p.Zone}}
		age := d.now().Sub(through)
		found.Text = fmt.Sprintf("facts of pool %s: from %s to %s UTC (%s)", p.Pool,
			pool.Time(facts.Micros(p.Since)).Format("2006-01-02"), through.Format("2006-01-02 15:04"), ageText(age))
		if age > lateFacts {
			found.Severity = severityWarning
			found.Text += ". Its publishing appears to have stopped: check gpureports publish and the pool's collector"
		}
		findings = append(findings, found)
	}
	return findings
}
