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
	text, notes, err := o.once(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Out, text)
	if notes != "" {
		fmt.Fprintln(c.Err, notes)
	}
	return nil
}

// once takes a snapshot, or polls the queues, and returns what to print.
func (o *collectCommand) once(ctx context.Context) (text, notes string, err error) {
	if o.Jobs {
		r, err := collect.Poll(ctx, o.Options)
		return fmt.Sprintf("%d idle and %d running jobs that ask for GPUs at %d access points, %d of them new, in %s.",
			r.Jobs-r.Running, r.Running, r.Schedds, r.New, r.Duration.Round(time.Millisecond)), r.Notes, err
	}
	r, err := collect.Run(ctx, o.Options)
	return fmt.Sprintf("Snapshot %s: %d slots, %d rows, in %s.", r.Timestamp, r.Slots, r.Rows,
		r.Duration.Round(time.Millisecond)), r.Notes, err
}
