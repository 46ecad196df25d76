package main

import (
	"context"
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/plugin"
)

type buildCommand struct {
	Settings string `required:"" placeholder:"FILE" help:"Settings of the data source, with segmentBucket."`
	From     string `default:"2000-01-01T00:00:00Z" placeholder:"T" help:"First day: RFC 3339 or now-7d. Default: all."`
	To       string `default:"now" placeholder:"T" help:"Last day. Default: all."`
	List     bool   `help:"Only print the days that the bucket lacks, one per line."`
}

// Run builds the days that the bucket of finished days lacks.
func (b *buildCommand) Run(ctx context.Context, c *cli.Console) error {
	// Open the data source.
	window, err := cli.ParseWindow(b.From, b.To, c.Now)
	if err != nil {
		return err
	}
	settings, err := cli.ReadSettings(b.Settings)
	if err != nil {
		return err
	}
	source := plugin.OpenOnce(settings, func() time.Time { return c.Now })
	defer source.Dispose()
	// Build day by day, and print the result of each.
	var built, there, failed int
	err = source.Build(ctx, window.From, window.To, b.List, func(day plugin.BuiltDay) {
		switch {
		case day.Err != nil:
			failed++
			fmt.Fprintf(c.Err, "%s: %v\n", day.Date, day.Err)
		case !day.Missing:
			there++
		case b.List:
			fmt.Fprintln(c.Out, day.Date)
		default:
			built++
			fmt.Fprintf(c.Out, "%s: built from %d rows\n", day.Date, day.Rows)
		}
	})
	if err != nil {
		return err
	}
	if !b.List {
		fmt.Fprintf(c.Out, "%d days built, %d already there, %d failed.\n", built, there, failed)
	}
	if failed > 0 {
		return fmt.Errorf("%d days could not be built: run the command again once the cause is fixed", failed)
	}
	return nil
}

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
		return err
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
