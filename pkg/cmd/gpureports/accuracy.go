package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/chtc/gpureports/pkg/accuracy"
)

type accuracyCommand struct {
	Seeds    int `help:"Pools of each kind." default:"10"`
	Machines int `help:"Machines of each pool. Default: as the kinds of pools have them."`
	Days     int `help:"Days of each pool. Default: as the kinds of pools have them."`
}

// Run measures evictions and durations against made-up pools whose truth is known. It fails when a required figure is
// missed.
func (a *accuracyCommand) Run(ctx context.Context, c *console) error {
	measured, err := accuracy.Measure(ctx, accuracy.Options{
		Seeds: a.Seeds, Machines: a.Machines, Days: a.Days,
		Done: func(done, all int) { fmt.Fprintf(c.err, "pool %d of %d measured\n", done, all) },
	})
	if err != nil {
		return err
	}
	fmt.Fprint(c.out, accuracy.Text(measured))
	if failures := accuracy.Failures(measured); len(failures) > 0 {
		return errors.New("not reached:\n" + strings.Join(failures, "\n"))
	}
	return nil
}
