package main

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
)

// loadCommand fills an Elasticsearch with a sample pool's job ads, as adstash would have done it. docker-compose.yaml
// uses it.
type loadCommand struct {
	URL    string   `required:"" name:"url" placeholder:"URL" help:"The server, such as http://localhost:9200."`
	Index  string   `required:"" placeholder:"NAME" help:"The index; made when there is none, with adstash's mapping."`
	Schema string   `enum:"legacy,refactored" default:"refactored" help:"legacy or refactored."`
	Inputs []string `arg:"" type:"existingfile" name:"file" help:"Job ads in JSON, one per line."`
}

// Run loads the ads of all files.
func (l *loadCommand) Run(ctx context.Context, c *cli.Console) error {
	for _, name := range l.Inputs {
		n, err := adstash.LoadFile(ctx, l.URL, l.Index, adstash.Schema(l.Schema), name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(c.Out, "%s: %d ads in %s.\n", name, n, l.Index)
	}
	return nil
}
