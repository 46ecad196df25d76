package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// pools returns how far the facts of each pool reach.
func (d *Datasource) pools(ctx context.Context) ([]facts.Checkpoint, error) {
	if err := cmp.Or(d.invalid, d.noFacts); err != nil {
		return nil, err
	}
	return d.facts.Pools(ctx)
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
		if age > 4*time.Hour {
			severity = check.Warning
			remedy = ". Its publishing appears to have stopped: check gpureports publish and the pool's collector"
		}
		c.Add("facts", severity, check.Details{"pool": p.Pool, "since": since, "through": through, "timezone": p.Zone},
			"facts of pool %s: from %s to %s UTC (%s)%s", p.Pool, since.Format("2006-01-02"),
			through.Format("2006-01-02 15:04"), ageText(age), remedy)
	}
}

// Pauses of a publisher: hours are published when they are over, and a failure may be over soon.
const (
	publishEvery = time.Hour
	publishAgain = 5 * time.Minute
)

// publisher publishes the facts of a data source's pool for as long as the data source lives: the setting publishTo.
type publisher struct {
	mu      sync.Mutex
	through time.Time // end of the published range; zero before the first hour
	failure error     // the last attempt's; nil if it succeeded
	failed  time.Time // when it was
}

// run publishes until ctx ends, which is its only error.
func (p *publisher) run(ctx context.Context, d *Datasource) error {
	to := d.parsed.PublishTo
	for {
		err := parallel.Recovered(func() error {
			return Publish(ctx, d, publish.Options{Pool: to.Pool, Index: to.Index}, p.published)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.mu.Lock()
		p.failure, p.failed = err, d.now()
		p.mu.Unlock()
		pause := publishEvery
		if err != nil {
			pause = publishAgain
			logFailure(backend.Logger.With("name", cmp.Or(d.settings.Name, d.settings.UID)), "publishing facts", err)
		}
		if err := parallel.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

// published records how far facts are published. Correcting hours of the last days, which happens from time to
// time, does not move that end back.
func (p *publisher) published(part publish.Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if part.To.After(p.through) {
		p.through = part.To
	}
}

// finding reports how far publishing has come, and why it stopped there.
func (p *publisher) finding(to PublishTo) finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := finding{Store: "publishing", Severity: check.OK, Details: check.Details{"pool": to.Pool, "index": to.Index}}
	where := fmt.Sprintf("facts of pool %s under %s", to.Pool, to.Index)
	switch {
	case p.failure != nil:
		found.Add(check.Warning, "%s: publishing failed at %s UTC and is tried again each %.0f minutes: %v", where,
			p.failed.UTC().Format("15:04"), publishAgain.Minutes(), p.failure)
	case p.through.IsZero():
		found.Add(check.Note, "%s: publishing has begun", where)
	default:
		found.Details["through"] = p.through
		found.Text = fmt.Sprintf("%s: published through %s UTC", where, p.through.UTC().Format("2006-01-02 15:04"))
	}
	return found
}

// Publish writes the facts of a data source's pool to Elasticsearch. The options give the pool's name, the start, the
// number of shards, and the index if it is not factsIndex. It passes each published part to done. Client and clock are
// the data source's own. Errors come from publish.Run.
func Publish(ctx context.Context, d *Datasource, o publish.Options, done func(publish.Part)) error {
	o.Index = cmp.Or(o.Index, d.parsed.FactsIndex)
	if o.Pool == "" {
		return pool.BadQuery("the pool has no name: give the one by which it is known among the pools")
	}
	stores, release, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	transport, err := openTransport(ctx, d.settings)
	if err != nil {
		return err
	}
	o.Client, err = fleet.Connect(d.settings.URL, transport, o.Index)
	if err != nil {
		return err
	}
	env, err := stores.env(ctx)
	if err != nil {
		return err
	}
	o.Now = d.now
	return publish.Run(ctx, stores.Stores, env, o, done)
}
