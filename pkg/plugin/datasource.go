// Package plugin is Grafana's side: a data source's settings and life, queries, the health check and resources.
// Computations are the query kinds' own (pkg/allocation and its neighbors).
package plugin

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/instancemgmt"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/stores"
)

// ID is the plugin's id, as in plugin.json.
const ID = "chtc-gpureports-datasource"

// Datasource is a data source with its settings. It opens its stores with the first request, so that wrong settings, or
// a directory that is not mounted yet, are reported in answers and by the health check.
type Datasource struct {
	User        *backend.User // asks where a request names nobody
	Pseudonyms  bool          // those who may see names get pseudonyms, too; their filters accept both
	FilterUsers []string      // entries that are added to filter.users where a query takes it

	settings backend.DataSourceInstanceSettings
	parsed   Settings
	invalid  error // why the settings cannot be used
	once     bool  // compare data that earlier processes derived from the snapshots with them first
	now      func() time.Time
	answers  answerCache
	names    *pseudonyms        // nil: everyone sees names
	stop     context.CancelFunc // ends the reading ahead and the publishing

	publisher *publisher // nil: the plugin does not publish

	stores refCounted[*opened]

	// instead of stores, if the mode says so:
	facts   *fleet.Store
	noFacts error // why there are none
}

// New makes a data source for Grafana: a new one each time, which begins to read the data that queries will need.
func New(of context.Context, settings backend.DataSourceInstanceSettings) (instancemgmt.Instance, error) {
	d := Open(settings, time.Now)
	organization := backend.PluginConfigFromContext(of).OrgID //nolint:staticcheck // older Grafana sends no Namespace
	d.parsed.organization = strconv.FormatInt(organization, 10)
	for _, b := range d.parsed.buckets() {
		if d.invalid == nil { // who runs the command line uses keys of their own anyway
			d.invalid = allowBucket(b.name, d.parsed.bucketOptions(b.url, settings.DecryptedSecureJSONData))
		}
	}
	d.answers.maxBytes = int64(stores.Divide(uint64(d.parsed.CacheMaxMB) << 20).Answers)
	ctx, stop := context.WithCancel(context.Background()) // it outlives the request that makes the data source
	d.stop = stop
	failed := func(what string) func(error) {
		return func(err error) {
			if err != nil && ctx.Err() == nil {
				logFailure(backend.Logger.With("name", cmp.Or(settings.Name, settings.UID)), what, err)
			}
		}
	}
	parallel.Go(func() error { return d.warm(ctx) }, failed("reading ahead"))
	if d.invalid == nil && d.parsed.PublishTo.Pool != "" {
		d.publisher = &publisher{}
		parallel.Go(func() error { return d.publisher.run(ctx, d) }, failed("publishing facts"))
	}
	return d, nil
}

// Open makes a data source. now is the clock that ages are computed with, and that ends open periods.
func Open(settings backend.DataSourceInstanceSettings, now func() time.Time) *Datasource {
	d := &Datasource{settings: settings, now: now, stop: func() {}}
	d.answers.lifetime = answerLifetime
	d.stores.open = d.openStores
	d.stores.failed = func(err error) {
		backend.Logger.Warn("closing a data source", "name", cmp.Or(d.settings.Name, d.settings.UID), "error", err)
	}
	if d.parsed, d.invalid = ParseSettings(settings.JSONData); d.invalid == nil {
		d.invalid = d.parsed.allowDirs()
	}
	if d.invalid == nil && d.parsed.Pseudonymous() {
		d.names, d.invalid = newPseudonyms(settings.DecryptedSecureJSONData[pseudonymSecret])
	}
	if d.invalid == nil && d.parsed.Mode == modeFleet {
		transport, err := openTransport(context.Background(), settings)
		if d.noFacts = err; err == nil {
			d.facts, d.noFacts = fleet.Open(settings.URL, transport, d.parsed.FactsIndex)
		}
	}
	return d
}

// OpenOnce makes a data source for a process that answers once and ends. It compares the data of earlier processes in
// the cache directory with the snapshots before it answers, because no later answer could correct it.
func OpenOnce(settings backend.DataSourceInstanceSettings, now func() time.Time) *Datasource {
	d := Open(settings, now)
	d.once = true
	return d
}

// Dispose closes everything that the data source opened: immediately, or with the last running request.
// (Grafana calls it seconds after a settings save, while a new instance is already serving.)
func (d *Datasource) Dispose() {
	d.stop()
	d.stores.close()
}

// warm reads ahead the data that queries will need.
func (d *Datasource) warm(ctx context.Context) error {
	stores, done, err := d.use(ctx)
	if err != nil {
		return nil // queries and the health check say so
	}
	defer done()
	err = stores.Timeline.Warm(ctx)
	debug.FreeOSMemory() // reading leaves garbage of up to half the size of the cached data
	return err
}

// use returns the stores for one request, which must call done at its end. They are opened again if another directory
// has taken the place of one of theirs, or their texts have outgrown their share of memory.
func (d *Datasource) use(ctx context.Context) (s *opened, done func(), err error) {
	if d.invalid != nil {
		return nil, nil, d.invalid
	}
	if d.parsed.Mode == modeFleet {
		return nil, nil, pool.BadQuery("the data source's mode is %s: it answers for many pools from their facts and has no "+
			"snapshots. Ask the data source of a pool", modeFleet)
	}
	taken, err := d.stores.take(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	if taken.of.outdated() { // not under a lock: a file system can hang
		anew, err := d.stores.take(ctx, taken)
		d.stores.leave(taken)
		if err != nil {
			return nil, nil, err
		}
		taken = anew
	}
	return taken.of, func() { d.stores.leave(taken) }, nil
}

// Check runs the health check and checks all month files, the lists, and the job ads of the given length of time up to
// the newest snapshot. It returns the findings, the worst first. Its only error is ctx's.
func (d *Datasource) Check(ctx context.Context, last time.Duration) ([]check.Finding, error) {
	findings := d.findings(ctx, false)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("checking: %w", err)
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		return findings, nil // they say so
	}
	defer done()
	env, err := stores.env(ctx)
	if err != nil {
		return findings, nil
	}
	told, err := check.Look(ctx, check.Installation{
		Stores: stores.Stores, Dir: stores.dir, Zone: env.Zone, SliceMinutes: env.SliceMinutes, Lists: env.Lists,
		Now: d.now().UnixMicro(), Last: last.Microseconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("checking: %w", err)
	}
	findings = append(findings, told...)
	slices.SortStableFunc(findings, func(a, b finding) int {
		return slices.Index(check.Severities, a.Severity) - slices.Index(check.Severities, b.Severity)
	})
	return findings, nil
}

// BuiltDay is the result for one finished day.
type BuiltDay struct {
	Date    string // YYYY-MM-DD, UTC
	Missing bool   // the bucket lacks it, or did before it was built
	Rows    int64  // that it was built from
	Err     error
}

// Build computes the finished days in [from, to] that segmentBucket lacks, several at a time, uploads them, and passes
// each day to done, one after another. With list, it only reports the missing days. Because existing objects are not
// rebuilt, an interrupted build can be restarted. Errors: pool.BadQuery without the setting; the snapshots cannot be
// read; ctx's.
func (d *Datasource) Build(ctx context.Context, from, to time.Time, list bool, done func(BuiltDay)) error {
	stores, leave, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if stores.Timeline.Shared == nil {
		return pool.BadQuery("segmentBucket is not set: name the bucket that finished days are shared through")
	}
	dates, err := stores.Timeline.FinishedDays(ctx, from.UnixMicro(), to.UnixMicro())
	if err != nil {
		return err
	}
	var one sync.Mutex
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // one computes while another one waits for the bucket
	for _, date := range dates {
		group.Go(func() error {
			day := BuiltDay{Date: pool.Time(pool.Micros(date) * pool.Day).Format(time.DateOnly)}
			there, rows, err := stores.Timeline.Build(inner, date, list)
			day.Missing, day.Rows, day.Err = !there, rows, err
			if inner.Err() != nil {
				return inner.Err()
			}
			one.Lock()
			defer one.Unlock()
			done(day)
			return nil
		})
	}
	return group.Wait()
}
