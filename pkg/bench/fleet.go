package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elastic/go-elasticsearch/v8"

	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/publish"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots/sqlite"
	"github.com/chtc/gpureports/pkg/stores"
)

// Facts of pools, under an alias of their own. They end a day before the snapshots do.
const (
	factsAlias = "gpureports-bench-facts"
	factsDays  = 30
)

var factsEnd = now.AddDate(0, 0, -1)

// ofFleet are the panels that many pools are asked with.
var ofFleet = []struct {
	name, json string
	target     float64 // wanted, ms
}{
	{"summary by pool and device", `{"queryType":"allocation","view":"summary","groupBy":["pool","device"]}`, 1500},
	{"series by pool", `{"queryType":"allocation","view":"timeseries","groupBy":["pool"],"metrics":["allocated"]}`, 1500},
	{"GPU hours by pool and user", `{"queryType":"userHours","view":"summary","groupBy":["pool"]}`, 0},
	{"evictions by pool and device", `{"queryType":"evictions","view":"summary","groupBy":["pool","device"],` +
		`"metrics":["runs","evictions","ratePer100GpuHours","lostGpuHours"]}`, 0},
}

// fleet measures facts of many pools: the sample pool's own, under as many names.
func (b *bench) fleet(ctx context.Context) error {
	days, err := b.computeFacts(ctx)
	if err != nil {
		return err
	}
	if err := b.publishNowhere(ctx, days, pointOf("pool 1", days)); err != nil {
		return fmt.Errorf("publishing nowhere: %w", err)
	}
	if b.Elasticsearch == "" {
		b.Elasticsearch = StartElasticsearch
	}
	url, stop, err := b.server(ctx)
	if err != nil {
		return err
	}
	defer stop()
	es, err := elasticsearch.NewTypedClient(elasticsearch.Config{Addresses: []string{url}})
	if err != nil {
		return err
	}
	removeFacts(ctx, es) // of an earlier run that did not come to its end
	defer removeFacts(context.WithoutCancel(ctx), es)
	for _, pools := range [][2]int{{0, 1}, {1, b.Pools}} {
		if pools[0] == pools[1] {
			continue
		}
		if err := b.publishFacts(ctx, es, url, days, pools[0], pools[1]); err != nil {
			return fmt.Errorf("publishing: %w", err)
		}
		if err := b.factsOnDisk(ctx, es, pools[1]); err != nil {
			return err
		}
		if err := b.askFleet(ctx, es, url, pools[1]); err != nil {
			return err
		}
	}
	return nil
}

// computeFacts returns the facts of the sample pool, of a day each.
func (b *bench) computeFacts(ctx context.Context) (days []publish.Computed, err error) {
	tl, err := open(b.month(), "", sqlite.Format)
	if err != nil {
		return nil, err
	}
	s := stores.New(tl, stores.Divide(4<<30))
	defer func() { err = errors.Join(err, s.Close()) }()
	d, err := openDir(b.month())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	lists, err := d.Lists("", "")
	if err != nil {
		return nil, err
	}
	env := query.Env{Zone: localtime.UTC, SliceMinutes: factsSlice, Lists: lists}
	begin, kinds, documents := processorTime(), map[string]int{}, 0
	for from := factsEnd.AddDate(0, 0, -factsDays); from.Before(factsEnd); from = from.AddDate(0, 0, 1) {
		hours := make([]pool.Micros, 25)
		for i := range hours {
			hours[i] = from.Add(time.Duration(i) * time.Hour).UnixMicro()
		}
		all, _, err := facts.Compute(ctx, s, env, facts.Asked{Pool: "pool 1", Hours: hours, Finished: now.UnixMicro(),
			Now: now.UnixMicro()})
		if err != nil {
			return nil, err
		}
		documents += len(all)
		for _, f := range all {
			kinds[f.Kind]++
		}
		days = append(days, publish.Computed{From: hours[0], To: hours[24], Facts: all})
	}
	b.add(Figure{Area: "many pools", What: "the facts of a day of one pool made",
		Value: (processorTime() - begin).Seconds() * 1000 / factsDays, Unit: "ms of CPU",
		Note: fmt.Sprintf("%d documents a day: of GPUs %d, users %d, evictions %d, hours %d", documents/factsDays,
			kinds[facts.KindGPUs]/factsDays, kinds[facts.KindUsers]/factsDays, kinds[facts.KindEvictions]/factsDays,
			kinds[facts.KindHour]/factsDays)})
	return days, nil
}

const factsSlice = 15 // minutes

// publishFacts publishes the sample pool's facts as those of other pools.
func (b *bench) publishFacts(ctx context.Context, es *elasticsearch.TypedClient, url string, days []publish.Computed,
	from, to int) error {
	client, err := fleet.Connect(fleet.Config{URL: url, Index: factsAlias})
	if err != nil {
		return err
	}
	server, err := serverTime(ctx, es)
	if err != nil {
		return err
	}
	begin, own, documents := time.Now(), processorTime(), 0
	for n := from; n < to; n++ {
		point := pointOf(fmt.Sprintf("pool %d", n+1), days)
		if err := publish.Put(ctx, publish.Options{Client: client, Index: factsAlias, Pool: point.Pool, Shards: b.Shards,
			Now: time.Now}, point, renamed(days, point.Pool), func(p publish.Part) { documents += p.Documents }); err != nil {
			return err
		}
		fmt.Fprintf(b.Progress, "%s: %d documents so far\n", point.Pool, documents)
	}
	took := time.Since(begin).Seconds()
	own = processorTime() - own
	after, err := serverTime(ctx, es)
	if err != nil {
		return err
	}
	b.add(Figure{Area: "many pools", What: fmt.Sprintf("documents published, pools %d to %d", from+1, to),
		Value: float64(documents) / took, Unit: "a second",
		Note: fmt.Sprintf("%d documents; wanted: 20000. Of a second of CPU: the publisher %.0f, Elasticsearch %.0f",
			documents, float64(documents)/own.Seconds(), float64(documents)/(after-server).Seconds())})
	return nil
}

// pointOf is the checkpoint of facts that are not published yet.
func pointOf(name string, days []publish.Computed) facts.Checkpoint {
	return facts.Checkpoint{Pool: name, Kind: facts.KindPool, Version: facts.Version, Zone: "UTC",
		SliceMinutes: factsSlice, Since: facts.Millis(days[0].From)}
}

// renamed are the facts as those of a pool of another name.
func renamed(days []publish.Computed, name string) []publish.Computed {
	own := make([]publish.Computed, len(days))
	for i, day := range days {
		own[i] = publish.Computed{From: day.From, To: day.To, Facts: make([]*facts.Fact, len(day.Facts))}
		for k, f := range day.Facts {
			fact := *f
			fact.Pool = name
			own[i].Facts[k] = &fact
		}
	}
	return own
}

// serverTime is the CPU time that Elasticsearch has used, on all its nodes.
func serverTime(ctx context.Context, es *elasticsearch.TypedClient) (used time.Duration, err error) {
	stats, err := es.Nodes.Stats().Metric("process").Do(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking what Elasticsearch has used: %w", err)
	}
	for _, node := range stats.Nodes {
		if node.Process != nil && node.Process.Cpu != nil && node.Process.Cpu.TotalInMillis != nil {
			used += time.Duration(*node.Process.Cpu.TotalInMillis) * time.Millisecond
		}
	}
	return used, nil
}

// factsOnDisk says how much the facts take.
func (b *bench) factsOnDisk(ctx context.Context, es *elasticsearch.TypedClient, pools int) error {
	stats, err := es.Indices.Stats().Index(factsAlias).Do(ctx)
	if err != nil {
		return fmt.Errorf("asking for the size of the facts: %w", err)
	}
	all := stats.All_.Primaries
	if all == nil || all.Store == nil || all.Docs == nil {
		return errors.New("the size of the facts is not known")
	}
	b.add(Figure{Area: "many pools", What: fmt.Sprintf("%d pools on disk", pools),
		Value: float64(all.Store.SizeInBytes) / 1e6, Unit: "MB", Note: fmt.Sprintf("%d documents", all.Docs.Count)})
	return nil
}

// askFleet asks the panels, each time over an hour less, so that no answer is a remembered one.
func (b *bench) askFleet(ctx context.Context, es *elasticsearch.TypedClient, url string, pools int) error {
	settings, err := instance(map[string]any{"mode": "fleet", "factsIndex": factsAlias}, nil)
	if err != nil {
		return err
	}
	settings.URL = url
	source := plugin.Open(settings, func() time.Time { return now })
	defer source.Dispose()
	first := factsEnd.AddDate(0, 0, -factsDays)
	for _, p := range ofFleet {
		ask := func(i int) error {
			return answer(ctx, source, p.json, first.Add(time.Duration(i)*time.Hour), factsEnd)
		}
		if err := ask(0); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		server, err := serverTime(ctx, es)
		if err != nil {
			return err
		}
		const runs = 9
		own := processorTime()
		median, p99, err := timed(runs, func(i int) error { return ask(i + 1) })
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		own = processorTime() - own
		after, err := serverTime(ctx, es)
		if err != nil {
			return err
		}
		b.add(Figure{Area: "many pools", What: fmt.Sprintf("%s, %d d of %d pools", p.name, factsDays, pools),
			Value: median, Unit: "ms", Target: p.target,
			Note: fmt.Sprintf("the slowest of nine %.0f ms; CPU of Elasticsearch %.0f ms, of the plugin %.0f ms", p99,
				(after-server).Seconds()*1000/runs, own.Seconds()*1000/runs)})
	}
	return nil
}

// removeFacts removes what was published.
func removeFacts(ctx context.Context, es *elasticsearch.TypedClient) {
	indices := []string{facts.CheckpointIndex(factsAlias)}
	for at := factsEnd.AddDate(0, 0, -factsDays); at.Before(factsEnd); at = at.AddDate(0, 0, 1) {
		if name := facts.Index(factsAlias, at.UnixMilli()); name != indices[len(indices)-1] {
			indices = append(indices, name)
		}
	}
	for _, name := range indices {
		_, _ = es.Indices.Delete(name).Do(ctx)
	}
	_, _ = es.Indices.DeleteIndexTemplate(factsAlias).Do(ctx)
}
