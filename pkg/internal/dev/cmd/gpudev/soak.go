package main

import (
	"context"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/soak"
)

type soakCommand struct{ soak.Options }

// Run lets the plugin live long in a pool full of faults.
func (s *soakCommand) Run(ctx context.Context, c *cli.Console) (err error) {
	if s.Binary, err = findPlugin(ctx, s.Binary, c); err != nil {
		return err
	}
	s.Progress = c.Out
	return soak.Run(ctx, s.Options)
}
