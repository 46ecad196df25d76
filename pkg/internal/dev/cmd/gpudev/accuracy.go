package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/accuracy"
)

type accuracyCommand struct {
	accuracy.Options

	RealPool string `type:"path" help:"The folder of the recorded real pool." default:"testdata/golden/real-pool"`

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
	recorded, err := accuracy.MeasureReal(ctx, a.RealPool)
	if err != nil {
		return err
	}
	document := accuracy.Markdown(measured, asked, recorded, a.Options)
	fmt.Fprint(c.Out, document, accuracy.Causes(measured))
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
