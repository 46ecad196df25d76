package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/accuracy"
	"github.com/chtc/gpureports/pkg/internal/dev/bench"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

type accuracyCommand struct {
	accuracy.Options

	Markdown string `type:"path" placeholder:"FILE" help:"Write the figures into this file, as docs/accuracy.md."`
}

// Run measures evictions and durations against made-up pools whose truth is known. It fails when a required figure is
// missed.
func (a *accuracyCommand) Run(ctx context.Context, c *cli.Console) error {
	a.Done = func(done, all int) { fmt.Fprintf(c.Err, "pool %d of %d measured\n", done, all) }
	measured, err := accuracy.Measure(ctx, a.Options)
	if err != nil {
		return err
	}
	asked, err := accuracy.MeasureQuestions(ctx, a.Options)
	if err != nil {
		return err
	}
	recorded, err := accuracy.MeasureReal(ctx, "testdata/golden/real-pool")
	if err != nil {
		return err
	}
	document := accuracy.Markdown(measured, asked, recorded, a.Options)
	fmt.Fprint(c.Out, document)
	if a.Markdown != "" {
		if err := os.WriteFile(a.Markdown, []byte(document), 0o644); err != nil {
			return fmt.Errorf("writing the figures: %w", err)
		}
	}
	if failures := append(accuracy.Failures(measured), accuracy.QuestionFailures(asked)...); len(failures) > 0 {
		return errors.New("not reached:\n" + strings.Join(failures, "\n"))
	}
	return nil
}

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
