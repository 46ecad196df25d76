package plugin

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/publish"
)

// Publish puts the facts of a data source's pool, under its name among the pools, into Elasticsearch, and hands what is
// published at once to done. since, where it is not zero, begins earlier than publishing goes on by itself. Errors are
// those of publish.Run.
func Publish(ctx context.Context, d *Datasource, name string, since time.Time, done func(publish.Part)) error {
	return d.publish(ctx, PublishTo{name, d.parsed.FactsIndex}, since, done)
}

func (d *Datasource) publish(ctx context.Context, to PublishTo, since time.Time, done func(publish.Part)) error {
	if to.Pool == "" {
		return pool.BadQuery("the pool has no name: give the one by which it is known among the pools")
	}
	stores, leave, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer leave()
	transport, connections, err := openTransport(ctx, d.settings)
	if err != nil {
		return err
	}
	if connections != nil {
		defer connections.CloseIdleConnections()
	}
	client, err := fleet.Connect(fleet.Config{URL: d.settings.URL, Transport: transport, Index: to.Index})
	if err != nil {
		return err
	}
	env, err := stores.env(ctx)
	if err != nil {
		return err
	}
	return publish.Run(ctx, stores.Stores, env, publish.Options{Client: client, Index: to.Index, Pool: to.Pool,
		Since: since, Now: d.now}, done)
}
