package main

import (
	"context"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/bench"
)

type benchCommand struct {
	Machines      int    `help:"Machines of the pool." default:"170"`
	GPUs          int    `help:"GPUs of the pool." default:"900" name:"gpus"`
	Days          int    `help:"Days of the longest window." default:"365"`
	Large         bool   `help:"Also measure 10,000 GPUs."`
	Dir           string `type:"path" placeholder:"DIR" help:"Where the pools are made, and found again the next time. Default: a temporary directory."`
	Plugin        string `type:"existingfile" placeholder:"FILE" help:"The plugin's binary. Default: built from this checkout into dist/."`
	Elasticsearch string `name:"elasticsearch" env:"ELASTICSEARCH_URL" placeholder:"URL" help:"An Elasticsearch to measure with: its URL, or 'start' for that of this checkout's tests. Default: left out."`
	Runs          int    `help:"How often a warm panel is asked." default:"50"`
	Format        string `enum:"table,markdown,json" default:"table" help:"table, markdown or json."`
}

// Run measures the product on made-up pools and prints the figures.
func (b *benchCommand) Run(ctx context.Context, c *cli.Console) error {
	binary, err := findPlugin(ctx, b.Plugin, c)
	if err != nil {
		return err
	}
	figures, err := bench.Run(ctx, bench.Options{
		Machines: b.Machines, GPUs: b.GPUs, Days: b.Days, Large: b.Large, Dir: b.Dir, Binary: binary,
		Elasticsearch: b.Elasticsearch, Runs: b.Runs, Progress: c.Err,
	})
	if err != nil {
		return err
	}
	switch b.Format {
	case "json":
		return bench.PrintJSON(c.Out, figures)
	case "markdown":
		return bench.PrintMarkdown(c.Out, figures)
	}
	return bench.Print(c.Out, figures)
}
