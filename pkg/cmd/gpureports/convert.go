package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/localtime"
)

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
