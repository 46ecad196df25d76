package main

import (
	"context"
	"fmt"
	"os"

	"github.com/chtc/gpureports/pkg/jobs/sqlite"
	"github.com/chtc/gpureports/pkg/report"
)

type importCommand struct {
	Output string   `required:"" type:"path" placeholder:"FILE" help:"The job file; made when there is none, else ads are added."`
	Kind   string   `enum:"auto,history,epoch" default:"auto" help:"Which ads to take: auto, history or epoch. What an ad is, its content tells."`
	Inputs []string `arg:"" type:"existingfile" name:"file" help:"Job ads in JSON, as condor_history -json and adstash write them."`
}

// Run adds the ads of files to a job file: all that can be read, or none when a file fails. It fails when some cannot
// be read.
func (i *importCommand) Run(ctx context.Context, c *console) error {
	inputs := make([]sqlite.Input, len(i.Inputs))
	for k, name := range i.Inputs {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		inputs[k] = sqlite.Input{Name: name, Reader: file}
	}
	stop := working(c.err, "Reading job ads")
	done, err := sqlite.Import(ctx, i.Output, i.Kind, inputs...)
	stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s: %d ads read, %d stored, %d already there, %d of another kind, %d not readable.\n", i.Output,
		done.Read, done.Stored, done.Duplicates, done.Other, done.Bad)
	if done.Bad == 0 {
		return nil
	}
	for _, problem := range done.Problems {
		fmt.Fprintln(c.err, report.Sentence(problem))
	}
	return fmt.Errorf("%d ads could not be read (%d of them listed above); all others are stored", done.Bad,
		len(done.Problems))
}
