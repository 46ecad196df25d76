package plugin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// errNeedsPool refuses queries that need a pool's snapshots.
var errNeedsPool = pool.BadQuery("the data source's mode is %s: it answers for many pools from their facts and has no "+
	"snapshots. Ask the data source of a pool", modeFleet)

// catalog is the kinds that the data source answers.
func (d *Datasource) catalog() query.Catalog {
	if d.parsed.Mode == modeFleet {
		return fleet.Catalog
	}
	return kinds.Catalog
}

// pools returns how far the facts of each pool reach.
func (d *Datasource) pools(ctx context.Context) ([]facts.Checkpoint, error) {
	if err := cmp.Or(d.invalid, d.noFacts); err != nil {
		return nil, err
	}
	return d.facts.Pools(ctx)
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

// fleetValues returns a dimension's values in a window as answers show them, from the pools' facts.
func (d *Datasource) fleetValues(ctx context.Context, naming query.Naming, dimension string, filter query.Filter,
	window pool.Window) ([]string, *query.Plan, error) {
	values, plan, err := d.facts.Values(ctx, d.fleetEnv(naming), dimension, filter, window)
	for i := range values {
		values[i] = plan.Shown(dimension, values[i])
	}
	if dimension == "user" && naming.User != nil { // the order of names would reveal whose pseudonym it is
		slices.SortFunc(values, func(a, b string) int { return query.CompareValues(dimension, a, b) })
	}
	return values, plan, err
}

// lateFacts is the age of a pool's newest facts from which its publishing counts as stopped.
const lateFacts = 4 * time.Hour

// facts reports how far the facts of each pool reach.
func (c *checkup) facts(ctx context.Context) {
	points, err := c.d.pools(ctx)
	switch {
	case err != nil:
		c.Add("facts", check.Error, nil, "%v", err)
	case len(points) == 0:
		c.Add("facts", check.Warning, nil, "facts: no pool has published any under %s. Run gpureports publish for each of "+
			"them", c.d.parsed.FactsIndex)
	}
	for _, p := range points {
		since, through := pool.Time(facts.Micros(p.Since)), pool.Time(facts.Micros(p.Through))
		age, severity, remedy := c.d.now().Sub(through), check.OK, ""
		if age > lateFacts {
			severity = check.Warning
			remedy = ". Its publishing appears to have stopped: check gpureports publish and the pool's collector"
		}
		c.Add("facts", severity, check.Details{"pool": p.Pool, "since": since, "through": through, "timezone": p.Zone},
			"facts of pool %s: from %s to %s UTC (%s)%s", p.Pool, since.Format("2006-01-02"),
			through.Format("2006-01-02 15:04"), ageText(age), remedy)
	}
}
