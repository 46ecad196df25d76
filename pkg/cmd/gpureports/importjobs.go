package main

import (
	"context"
	"fmt"
	"os"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/jobs/sqlite"
	"github.com/chtc/gpureports/pkg/report"
)

type importCommand struct {
	Output string   `required:"" type:"path" placeholder:"FILE" help:"The job file. Created if missing; otherwise ads are added."`
	Kind   string   `enum:"auto,history,epoch" default:"auto" help:"Kind of ads to import: auto (by content), history or epoch."`
	Inputs []string `arg:"" type:"existingfile" name:"file" help:"Job ads as condor_history -json, -jsonl or -long, with or without -epochs, and adstash write them."`
}

// Run adds the ads of files to a job file: all that can be read, or none when a file fails. It fails when some cannot
// be read.
func (i *importCommand) Run(ctx context.Context, c *cli.Console) error {
	inputs := make([]sqlite.Input, len(i.Inputs))
	for k, name := range i.Inputs {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		inputs[k] = sqlite.Input{Name: name, Reader: file}
	}
	stop := cli.Working(c.Err, "Reading job ads")
	done, err := sqlite.Import(ctx, i.Output, i.Kind, inputs...)
	stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s: %d ads read, %d stored, %d already there, %d of the other kind, %d not readable.\n", i.Output,
		done.Read, done.Stored, done.Duplicates, done.Other, done.Bad)
	if done.Note != "" {
		fmt.Fprintln(c.Err, report.Sentence(done.Note))
	}
	if done.Bad == 0 {
		return nil
	}
	for _, problem := range done.Problems {
		fmt.Fprintln(c.Err, report.Sentence(problem))
	}
	return fmt.Errorf("%d ads could not be read (%d of them listed above); all others are stored", done.Bad,
		len(done.Problems))
}
