package plugin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// errOfPool refuses queries that need a pool's snapshots.
var errOfPool = pool.BadQuery("the data source's mode is %s: it answers for many pools from their facts and has no "+
	"snapshots. Ask the data source of a pool", modeFleet)

// useFleet returns the facts.
func (d *Datasource) useFleet() (*fleet.Store, error) { return d.facts, cmp.Or(d.invalid, d.noFacts) }

// pools returns how far the facts of each pool reach.
func (d *Datasource) pools(ctx context.Context) ([]facts.Checkpoint, error) {
	store, err := d.useFleet()
	if err != nil {
		return nil, err
	}
	return store.Pools(ctx)
}

// openFleet opens the facts, without asking Elasticsearch anything.
func (d *Datasource) openFleet() (err error) {
	var transport http.RoundTripper
	if transport, d.leave, err = openTransport(context.Background(), d.settings); err == nil {
		d.facts, err = fleet.Open(fleet.Config{URL: d.settings.URL, Transport: transport, Index: d.parsed.FactsIndex})
	}
	return err
}

// fleetEnv has the settings for answers from facts, which are of full hours.
func (d *Datasource) fleetEnv(naming query.Naming) query.Env {
	return query.Env{Zone: d.parsed.zone, SliceMinutes: 60, YearStart: d.parsed.FiscalYearStart, Naming: naming}
}

// computeFleet answers a query from the facts of many pools.
func (d *Datasource) computeFleet(ctx context.Context, naming query.Naming, r query.Request) (data.Frames, error) {
	store, err := d.useFleet()
	if err != nil {
		return nil, err
	}
	return store.Answer(ctx, kinds.Catalog, d.fleetEnv(naming), r)
}

// fleetValues lists a dimension's values in a window, from the pools' facts.
func (d *Datasource) fleetValues(ctx context.Context, naming query.Naming, dimension string, filter query.Filter,
	r *http.Request) ([]option, error) {
	points, err := d.pools(ctx)
	if err != nil || len(points) == 0 {
		return []option{}, err
	}
	_, newest := reach(points)
	window, err := windowOf(r, newest)
	if err != nil {
		return nil, err
	}
	values, plan, err := d.facts.Values(ctx, d.fleetEnv(naming), dimension, filter, window)
	if err != nil {
		return nil, err
	}
	options := make([]option, 0, len(values))
	for _, v := range values {
		options = append(options, optionOf(plan, dimension, plan.Shown(dimension, v)))
	}
	if dimension == "user" && naming.User != nil { // the order of names would reveal whose pseudonym it is
		slices.SortFunc(options, func(a, b option) int { return query.CompareValues(dimension, a.Text, b.Text) })
	}
	return options, nil
}

// fleetRange returns the beginning of the first and the end of the newest hour that any pool has published.
func (d *Datasource) fleetRange(ctx context.Context) (from, to pool.Micros, ok bool, err error) {
	points, err := d.pools(ctx)
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
	points, err := d.pools(ctx)
	switch {
	case err != nil:
		return []finding{{Store: "facts", Severity: check.Error, Text: err.Error()}}
	case len(points) == 0:
		return []finding{{Store: "facts", Severity: check.Warning, Text: fmt.Sprintf("facts: no pool has published any "+
			"under %s. Run gpureports publish for each of them", d.parsed.FactsIndex)}}
	}
	var findings []finding
	for _, p := range points {
		through := pool.Time(facts.Micros(p.Through))
		found := finding{Store: "facts", Severity: check.OK, Details: map[string]any{"pool": p.Pool,
			"since": pool.Time(facts.Micros(p.Since)), "through": through, "timezone": p.Zone}}
		age := d.now().Sub(through)
		found.Text = fmt.Sprintf("facts of pool %s: from %s to %s UTC (%s)", p.Pool,
			pool.Time(facts.Micros(p.Since)).Format("2006-01-02"), through.Format("2006-01-02 15:04"), ageText(age))
		if age > lateFacts {
			found.Add(check.Warning, ". Its publishing appears to have stopped: check gpureports publish and the pool's "+
				"collector")
		}
		findings = append(findings, found)
	}
	return findings
}
