package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

// soakCommand runs the test of a long life, which shares the helpers of the other tests of reliability.
type soakCommand struct {
	Duration time.Duration `default:"10m" help:"How long to go on."`
	Seed     uint64        `default:"1" help:"Another seed draws other faults and questions."`
}

// Run lets the plugin live long in a pool full of faults.
func (s *soakCommand) Run(ctx context.Context, c *cli.Console) error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	// Beyond the duration, faults may last so long on a busy machine.
	const faultsMayLast = time.Hour
	test := exec.CommandContext(ctx, "go", "test", "./pkg/internal/dev/reliability", // #nosec G204 -- numbers only
		"-run", "^TestSoak$", "-count", "1", "-v", "-timeout", (s.Duration + faultsMayLast).String(),
		"-soak", s.Duration.String(), "-soak.seed", strconv.FormatUint(s.Seed, 10))
	test.Dir, test.Stdout, test.Stderr = root, c.Out, c.Err
	if err := test.Run(); err != nil {
		return fmt.Errorf("the test of a long life: %w", err)
	}
	return nil
}
