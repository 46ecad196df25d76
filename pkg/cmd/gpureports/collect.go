package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/collect"
)

type collectCommand struct {
	collect.Options
	Every time.Duration `help:"Keep running as a service, with a snapshot or poll at every multiple of this interval, such as 15m. Default: only one." placeholder:"INTERVAL"`
}

// Run takes one snapshot of a pool, or with --jobs polls its queues once, or repeats that.
func (o *collectCommand) Run(ctx context.Context, c *cli.Console) error {
	if o.Every != 0 {
		o.Log = slog.New(slog.NewTextHandler(c.Err, nil))
		return collect.Service(ctx, o.Options, o.Every)
	}
	if o.Jobs {
		return o.poll(ctx, c)
	}
	result, err := collect.Run(ctx, o.Options)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "Snapshot %s: %d slots, %d rows, in %s.\n", result.Timestamp, result.Slots, result.Rows,
		result.Duration.Round(time.Millisecond))
	if result.Notes != "" {
		fmt.Fprintln(c.Err, result.Notes)
	}
	return nil
}

// poll polls the queues once.
func (o *collectCommand) poll(ctx context.Context, c *cli.Console) error {
	result, err := collect.Poll(ctx, o.Options)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%d idle and %d running jobs that ask for GPUs at %d access points, %d of them new, in %s.\n",
		result.Jobs-result.Running, result.Running, result.Schedds, result.New, result.Duration.Round(time.Millisecond))
	if result.Notes != "" {
		fmt.Fprintln(c.Err, result.Notes)
	}
	return nil
}
