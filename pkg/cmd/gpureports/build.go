package main

import (
	"context"
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
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
	window, err := cli.ParseWindow(b.From, b.To, c.Now)
	if err != nil {
		return err
	}
	settings, err := cli.ReadSettings(b.Settings)
	if err != nil {
		return cli.Usage("%w", err)
	}
	source := plugin.OpenOnce(settings, func() time.Time { return c.Now })
	defer source.Dispose()
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
