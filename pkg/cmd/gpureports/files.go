package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/collect"
	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/jobs/sqlite"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/report"
)

type collectCommand struct {
	collect.Options
	Every time.Duration `help:"Keep running as a service, with a snapshot or poll at every multiple of this interval, such as 15m. Default: only one." placeholder:"INTERVAL"`
}

// Run takes one snapshot of a pool, or with --jobs polls its queues once, or repeats that.
func (o *collectCommand) Run(ctx context.Context, c *cli.Console) error {
	if o.Every != 0 {
		o.Log = slog.New(slog.NewTextHandler(c.Err, nil))
		return collect.Service(ctx, o.Options, o.Every)
	}
	text, notes, err := o.once(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Out, text)
	if notes != "" {
		fmt.Fprintln(c.Err, notes)
	}
	return nil
}

// once takes a snapshot, or polls the queues, and returns what to print.
func (o *collectCommand) once(ctx context.Context) (text, notes string, err error) {
	if o.Jobs {
		r, err := collect.Poll(ctx, o.Options)
		return fmt.Sprintf("%d idle and %d running jobs that ask for GPUs at %d access points, %d of them new, in %s.",
			r.Jobs-r.Running, r.Running, r.Schedds, r.New, r.Duration.Round(time.Millisecond)), r.Notes, err
	}
	r, err := collect.Run(ctx, o.Options)
	return fmt.Sprintf("Snapshot %s: %d slots, %d rows, in %s.", r.Timestamp, r.Slots, r.Rows,
		r.Duration.Round(time.Millisecond)), r.Notes, err
}

type convertCommand struct {
	Files    []string `arg:"" type:"existingfile" help:"Month files of snapshots (gpu_state) or queues (job_pressure): .db become .parquet, and .parquet become .db."`
	Output   string   `help:"Directory of the new files; default: that of each file. If a directory has both files of a month, the Parquet file is used." type:"existingdir" placeholder:"DIR"`
	Timezone string   `help:"Time zone of the times in queue files of the older layout, which have a row for each poll (IANA name; default UTC)." placeholder:"ZONE"`
}

// Run converts month files; the output is compared with its source row by row.
func (o *convertCommand) Run(ctx context.Context, c *cli.Console) error {
	defer cli.Working(c.Err, "Converting")()
	zone, err := localtime.Parse([]byte(strconv.Quote(o.Timezone)))
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range o.Files {
		result, err := convert.File(ctx, file, cmp.Or(o.Output, filepath.Dir(file)), zone)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(c.Out, "%s: %d rows, compared with %s row by row.\n", result.Path, result.Rows, filepath.Base(file))
		for _, note := range result.Notes {
			fmt.Fprintf(c.Err, "%s: %s.\n", filepath.Base(file), note)
		}
	}
	return errors.Join(failed...)
}

type importCommand struct {
	Output string   `required:"" type:"path" placeholder:"FILE" help:"The job file. Created if missing; otherwise ads are added."`
	Kind   string   `enum:"auto,history,epoch" default:"auto" help:"Kind of ads to import: auto (by content), history or epoch."`
	Inputs []string `arg:"" type:"existingfile" name:"file" help:"Job ads as condor_history -json, -jsonl or -long, with or without -epochs, and adstash write them."`
}

// Run adds the ads of files to a job file, or none if a file fails. It fails if some ads cannot be read.
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
