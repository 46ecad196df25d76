package main

import (
	"context"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/bench"
)

type benchCommand struct{ bench.Options }

// Run measures the product on made-up pools and prints the figures.
func (b *benchCommand) Run(ctx context.Context, c *cli.Console) (err error) {
	if b.Binary, err = findPlugin(ctx, b.Binary, c); err != nil {
		return err
	}
	b.Progress = c.Err
	figures, err := bench.Run(ctx, b.Options)
	if err != nil {
		return err
	}
	return bench.Print(c.Out, figures)
}
