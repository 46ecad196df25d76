package main

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/bench"
)

type benchCommand struct {
	Machines int    `default:"150" help:"Machines of the pool that is made as files."`
	GPUs     int    `name:"gpus" default:"900" help:"Its GPUs."`
	Days     int    `default:"365" help:"Days of the longest window."`
	Large    bool   `help:"Also measure 10,000 GPUs."`
	Dir      string `type:"path" placeholder:"DIR" help:"Where pools are made, and found again; default: a temporary directory."`
	Binary   string `type:"path" placeholder:"FILE" help:"The plugin's binary, to measure the plugin protocol."`
	JSON     bool   `name:"json" help:"Print JSON."`
}

// Run measures and prints one table.
func (b *benchCommand) Run(ctx context.Context, c *console) error {
	if b.Days < 4 {
		return usage("bench: --days %d; 4 is the least", b.Days)
	}
	figures, err := bench.Run(ctx, bench.Options{Machines: b.Machines, GPUs: b.GPUs, Days: b.Days, Large: b.Large, Dir: b.Dir, Binary: b.Binary, Progress: c.err})
	if err != nil {
		return err
	}
	print := bench.Print
	if b.JSON {
		print = bench.PrintJSON
	}
	if err := print(c.out, figures); err != nil {
		return fmt.Errorf("printing the figures: %w", err)
	}
	return nil
}
