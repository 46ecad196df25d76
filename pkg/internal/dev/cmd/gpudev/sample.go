package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

type sampleCommand struct {
	Directory string `arg:"" type:"path" help:"Where to write it; it may hold no month file yet."`
	sampleOptions
}

// sampleOptions describe a made-up pool that ends now.
type sampleOptions struct {
	Machines int    `default:"12" help:"Number of machines, 5 to 2000."`
	Days     int    `default:"7" help:"Days of snapshots up to now."`
	Seed     uint64 `default:"1" help:"Another number makes another pool."`
	Timezone string `default:"America/Chicago" help:"Time zone of the collector and of the pool's working hours."`
	Format   string `default:"sqlite" enum:"sqlite,parquet" help:"Format of the month files: sqlite or parquet."`
}

// Run writes a made-up pool: month files, lists, job ads, its truth, and settings for the other commands.
func (s *sampleCommand) Run(ctx context.Context, c *cli.Console) error {
	defer cli.Working(c.Err, "Making the sample pool")()
	settings, err := s.write(ctx, s.Directory, c.Now)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "A sample pool of %d machines over %d days is in %s; its settings are %s.\n", s.Machines, s.Days,
		s.Directory, settings)
	return nil
}

const settingsFile = "settings.json"

// write makes the pool and returns the path of its settings.
func (o sampleOptions) write(ctx context.Context, dir string, now time.Time) (settings string, err error) {
	options := samplepool.Default().Troubled()
	options.Seed, options.Machines, options.Format, options.Timezone = o.Seed, o.Machines, o.Format, o.Timezone
	options.End = now.UTC().Truncate(time.Minute)
	options.Start = options.End.AddDate(0, 0, -o.Days)
	options.NewColumns, options.Crowded = options.Start, 3
	made, err := samplepool.New(options)
	if err != nil {
		return "", cli.Usage("%w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- Grafana's user reads it
		return "", err
	}
	if err := made.Write(ctx, dir); err != nil {
		return "", fmt.Errorf("making the sample pool: %w", err)
	}
	settings = filepath.Join(dir, settingsFile)
	return settings, writeSettings(settings, map[string]any{"name": "Sample pool", "jsonData": map[string]any{
		"snapshotDir": ".", "timezone": options.Timezone, "jobs": "sqlite"}})
}

func writeSettings(path string, settings map[string]any) error {
	text, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) // #nosec G306 -- holds no secret
}

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
