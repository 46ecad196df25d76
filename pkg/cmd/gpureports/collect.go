package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/chtc/gpureports/pkg/collect"
)

type collectCommand struct {
	collect.Options
	Every time.Duration `help:"Go on as a service, a snapshot at every multiple of this interval, such as 15m. Default: one snapshot." placeholder:"INTERVAL"`
}

// Run takes one snapshot of a pool, or goes on taking them.
func (o *collectCommand) Run(ctx context.Context, c *console) error {
	if o.Every != 0 {
		o.Log = slog.New(slog.NewTextHandler(c.err, nil))
		return collect.Service(ctx, o.Options, o.Every)
	}
	result, err := collect.Run(ctx, o.Options)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "Snapshot %s: %d slots, %d rows, in %s.\n", result.Timestamp, result.Slots, result.Rows, result.Duration.Round(time.Millisecond))
	if result.Notes != "" {
		fmt.Fprintln(c.err, result.Notes)
	}
	return nil
}
