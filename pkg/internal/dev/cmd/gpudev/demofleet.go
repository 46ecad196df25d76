package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// demofleet.json has the queries to a fleet.
//
//go:embed demofleet.json
var fleetQuestions []byte

// fleetPools are the pools of the demo: in three time zones, one of them half an hour off.
var fleetPools = []struct{ name, zone string }{
	{"Madison", "America/Chicago"}, {"Geneva", "Europe/Zurich"}, {"Mumbai", "Asia/Kolkata"},
}

const fleetIndex = "gpu-facts"

// runFleet makes three sample pools, publishes their facts into an Elasticsearch of its own, and prints what a data
// source of many pools answers.
func (d *demoCommand) runFleet(ctx context.Context, dir string, c *cli.Console) error {
	begin, done := time.Now(), cli.Working(c.Err, "Starting Elasticsearch")
	var server elastictest.Server
	err := server.Start(ctx)
	done()
	if err != nil {
		return err
	}
	defer server.Stop()
	url := server.URL
	fmt.Fprintf(c.Out, "Started Elasticsearch for this demo at %s (%s).\n", url,
		time.Since(begin).Round(100*time.Millisecond))
	for i, p := range fleetPools {
		if err := d.publishSample(ctx, url, filepath.Join(dir, p.name), i, c); err != nil {
			return fmt.Errorf("pool %s: %w", p.name, err)
		}
	}
	fleet := filepath.Join(dir, "fleet.json")
	if err := writeFleet(fleet, url); err != nil {
		return err
	}
	if err := d.askPlugin(ctx, fleet, fleetQuestions, c); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, `
What next
  Your own pools, with your Elasticsearch:
    gpureports publish --settings settings.json --pool NAME
  and a data source with the settings of %s. See docs/fleet.md.
`, fleet)
	return nil
}

// publishSample makes one of the pools, unless it is there from an earlier run, and publishes its facts.
func (d *demoCommand) publishSample(ctx context.Context, url, dir string, i int, c *cli.Console) error {
	p := fleetPools[i]
	options := d.sampleOptions
	options.Seed, options.Machines, options.Timezone = d.Seed+uint64(i), d.Machines+4*i, p.zone
	path := filepath.Join(dir, settingsFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if path, err = options.write(ctx, dir, c.Now); err != nil {
			return err
		}
	}
	settings, err := cli.ReadSettings(path)
	if err != nil {
		return err
	}
	var jsonData map[string]any
	if err := json.Unmarshal(settings.JSONData, &jsonData); err != nil {
		return err
	}
	jsonData["factsIndex"] = fleetIndex
	if settings.JSONData, err = json.Marshal(jsonData); err != nil {
		return err
	}
	settings.URL = url
	source := plugin.Open(settings, time.Now)
	defer source.Dispose()
	begin, documents := time.Now(), 0
	if err := plugin.Publish(ctx, source, publish.Options{Pool: p.name}, func(part publish.Part) {
		documents += part.Documents
	}); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "Published pool %s (%d machines, %s): %d documents in %s.\n", p.name, options.Machines, p.zone,
		documents, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// writeFleet writes the settings of the data source of all pools.
func writeFleet(path, url string) error {
	text, err := json.MarshalIndent(map[string]any{"name": "GPU fleet", "url": url, "jsonData": map[string]any{
		"mode": "fleet", "factsIndex": fleetIndex, "timezone": "UTC"}}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) // #nosec G306 -- holds no secret
}
