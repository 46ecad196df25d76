package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/chtc/gpureports/pkg/convert"
)

type convertCommand struct {
	Files  []string `arg:"" type:"existingfile" help:"Month files: gpu_state_YYYY-MM.db become .parquet, and .parquet become .db."`
	Output string   `help:"Directory of the new files; default: that of each file. Of two files of one month in a directory Parquet counts." type:"existingdir" placeholder:"DIR"`
}

// Run converts month files; what was written is compared with its source row by row.
func (o *convertCommand) Run(ctx context.Context, c *console) error {
	defer working(c.err, "Converting")()
	var failed []error
	for _, file := range o.Files {
		directory := o.Output
		if directory == "" {
			directory = filepath.Dir(file)
		}
		result, err := convert.File(ctx, file, directory)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(c.out, "%s: %d rows, compared with %s row by row.\n", result.Path, result.Rows, filepath.Base(file))
		for _, note := range result.Notes {
			fmt.Fprintf(c.err, "%s: %s.\n", filepath.Base(file), note)
		}
	}
	return errors.Join(failed...)
}
