package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/publish"
)

type publishCommand struct {
	Settings string        `required:"" placeholder:"FILE" help:"Settings of the pool's data source, with factsIndex and the URL of Elasticsearch."`
	Pool     string        `required:"" placeholder:"NAME" help:"Name of the pool among the pools."`
	Since    string        `placeholder:"T" help:"First hour: RFC 3339 or now-7d. Default: where publishing ended, or all."`
	Shards   int           `placeholder:"N" help:"Shards of months to come. Default: as before, or 1."`
	Every    time.Duration `placeholder:"1h" help:"Go on publishing, each hour or so. Default: publish once."`
}

// Run publishes what the pool's facts lack; with --every until it is ended.
func (p *publishCommand) Run(ctx context.Context, c *console) error {
	var since time.Time
	if p.Since != "" {
		var err error
		if since, err = parseTime(p.Since, c.now); err != nil {
			return err
		}
	}
	if p.Every != 0 && p.Every < time.Minute {
		return usage("--every %s is too short: use a minute or more", p.Every)
	}
	if most := 1024; p.Shards < 0 || p.Shards > most {
		return usage("--shards %d is not between 1 and %d", p.Shards, most)
	}
	settings, err := readSettings(p.Settings)
	if err != nil {
		return usageError{err}
	}
	source := plugin.Open(settings, time.Now)
	defer source.Dispose()
	for {
		err := p.once(ctx, c, source, since)
		if p.Every == 0 || ctx.Err() != nil || pool.FaultOf(err) == pool.FaultQuery {
			return endless(ctx, err, p.Every)
		}
		if err != nil {
			fmt.Fprintf(c.err, "%v\nTrying again in %s.\n", err, p.Every)
		} else {
			since = time.Time{}
		}
		if parallel.Wait(ctx, p.Every) != nil {
			return nil
		}
	}
}

// endless returns the error of a publishing; one that is repeated until it is ended has none for having been ended.
func endless(ctx context.Context, err error, every time.Duration) error {
	if every != 0 && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *publishCommand) once(ctx context.Context, c *console, source *plugin.Datasource, since time.Time) error {
	begin := time.Now()
	var documents, removed int
	o := publish.Options{Pool: p.Pool, Since: since, Shards: p.Shards}
	err := plugin.Publish(ctx, source, o, func(part publish.Part) {
		documents, removed = documents+part.Documents, removed+part.Removed
		for _, warning := range part.Warnings {
			fmt.Fprintf(c.err, "Warning: %s\n", warning)
		}
		fmt.Fprintf(c.out, "%s to %s UTC: %d documents\n", part.From.Format("2006-01-02 15:04"),
			part.To.Format("2006-01-02 15:04"), part.Documents)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "Published %d documents of pool %s in %s; %d that are no more were removed.\n", documents, p.Pool,
		time.Since(begin).Round(100*time.Millisecond), removed)
	return nil
}
