package plugin

import (
	"context"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/pool"
)

// Publish writes the facts of a data source's pool to Elasticsearch. The options give the pool's name, the start, and
// the number of shards. It passes each published part to done. Client, index, and clock are the data source's own.
// Errors come from publish.Run.
func Publish(ctx context.Context, d *Datasource, o publish.Options, done func(publish.Part)) error {
	o.Index = d.parsed.FactsIndex
	return d.publish(ctx, o, done)
}

func (d *Datasource) publish(ctx context.Context, o publish.Options, done func(publish.Part)) error {
	if o.Pool == "" {
		return pool.BadQuery("the pool has no name: give the one by which it is known among the pools")
	}
	stores, release, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	transport, leave, err := openTransport(ctx, d.settings)
	if err != nil {
		return err
	}
	defer leave()
	o.Client, err = fleet.Connect(fleet.Config{URL: d.settings.URL, Transport: transport, Index: o.Index})
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
