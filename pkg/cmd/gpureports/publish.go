package main

import (
	"context"
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/plugin"
)

type publishCommand struct {
	Settings string `required:"" placeholder:"FILE" help:"Settings of the pool's data source, with factsIndex and the URL of Elasticsearch."`
	Pool     string `required:"" placeholder:"NAME" help:"Name under which the pool's facts are published."`
	Since    string `placeholder:"T" help:"First hour: RFC 3339 or now-7d. Default: where the last run ended, or all data."`
	Shards   int    `placeholder:"N" help:"Shards of the indices of future months. Default: as before, or 1."`
}

// Run publishes the missing facts of the pool.
func (p *publishCommand) Run(ctx context.Context, c *cli.Console) error {
	var since time.Time
	if p.Since != "" {
		var err error
		if since, err = cli.ParseTime(p.Since, c.Now); err != nil {
			return err
		}
	}
	if most := 1024; p.Shards < 0 || p.Shards > most {
		return cli.Usage("--shards %d is not between 1 and %d", p.Shards, most)
	}
	settings, err := cli.ReadSettings(p.Settings)
	if err != nil {
		return cli.Usage("%w", err)
	}
	source := plugin.OpenOnce(settings, time.Now)
	defer source.Dispose()
	begin := time.Now()
	var documents, removed int
	o := publish.Options{Pool: p.Pool, Since: since, Shards: p.Shards}
	err = plugin.Publish(ctx, source, o, func(part publish.Part) {
		documents, removed = documents+part.Documents, removed+part.Removed
		for _, warning := range part.Warnings {
			fmt.Fprintf(c.Err, "Warning: %s\n", warning)
		}
		fmt.Fprintf(c.Out, "%s to %s UTC: %d documents\n", part.From.Format("2006-01-02 15:04"),
			part.To.Format("2006-01-02 15:04"), part.Documents)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "Published %d documents of pool %s in %s; %d outdated ones were removed.\n", documents, p.Pool,
		time.Since(begin).Round(100*time.Millisecond), removed)
	return nil
}
