package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

type demoCommand struct {
	Directory string `type:"path" placeholder:"DIR" help:"Keep the sample pool in this directory; one that is there is used again. Default: a temporary one."`
	Plugin    string `type:"existingfile" placeholder:"FILE" help:"The plugin's binary. Default: built from this checkout into dist/."`
	Fleet     bool   `help:"Publish three sample pools, and ask across them. Needs a JDK and Maven."`
	sampleOptions
}

// demo.json has the queries of the demo, and over how many hours before the newest snapshot they run.
//
//go:embed demo.json
var demoQuestions []byte

// Run makes a sample pool, starts the plugin's binary as Grafana does, and prints its answers.
func (d *demoCommand) Run(ctx context.Context, c *cli.Console) error {
	say := func(format string, args ...any) { fmt.Fprintf(c.Out, format+"\n", args...) }

	dir := d.Directory
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "gpureports-demo-"); err != nil {
			return err
		}
	}
	if d.Fleet {
		return d.runFleet(ctx, dir, c)
	}
	settingsPath := filepath.Join(dir, settingsFile)
	if _, err := os.Stat(settingsPath); err == nil {
		say("Using the sample pool in %s.", dir)
	} else {
		begin := time.Now()
		if settingsPath, err = d.write(ctx, dir, c.Now); err != nil {
			return err
		}
		say("Made a sample pool of %d machines over %d days in %s (%s).", d.Machines, d.Days, dir,
			time.Since(begin).Round(100*time.Millisecond))
	}
	if err := d.askPlugin(ctx, settingsPath, demoQuestions, c); err != nil {
		return err
	}
	say(`
What next
  Ask something yourself:
    go run ./pkg/cmd/gpureports query --settings %s --from now-24h --to now --query - \
        <<< '{"queryType": "allocation", "view": "machines"}'
  Build the plugin's folder:          go tool mage build
  See it in Grafana (with Docker):    go tool mage up
  Your own pool: a settings file like %s with your snapshotDir and timezone.`, settingsPath, settingsPath)
	return nil
}

// askPlugin starts the plugin's binary, checks the health of a data source, and asks it.
func (d *demoCommand) askPlugin(ctx context.Context, settings string, questions []byte, c *cli.Console) error {
	read, err := cli.ReadSettings(settings)
	if err != nil {
		return err
	}
	process, err := startPlugin(ctx, d.Plugin, c)
	if err != nil {
		return err
	}
	defer process.Close()
	source := process.Source(read).As("Admin")

	health, err := source.CheckHealth(ctx)
	if err != nil {
		return fmt.Errorf("the health check was not answered: %w", err)
	}
	fmt.Fprintf(c.Out, "\nHealth: %s\n%s\n", health.Status, indent(health.Message))
	if health.Status != backend.HealthStatusOk {
		return errors.New("the data source is not well")
	}
	return askDemo(ctx, source, questions, c.Out)
}

// demoWidth is the width of the demo's tables: a terminal breaks longer lines.
const demoWidth = 200

// askDemo asks questions, as demo.json holds them, and prints the tables.
func askDemo(ctx context.Context, source *host.Source, text []byte, out io.Writer) error {
	var questions []struct {
		Title string          `json:"title"`
		Hours float64         `json:"hours"` // 0: the newest snapshot
		Query json.RawMessage `json:"query"`
	}
	if err := json.Unmarshal(text, &questions); err != nil {
		return fmt.Errorf("the demo's questions: %w", err)
	}
	newest, err := newestSnapshot(ctx, source)
	if err != nil {
		return err
	}
	for _, q := range questions {
		begin := time.Now()
		window := backend.TimeRange{From: newest.Add(-time.Duration(q.Hours*float64(time.Hour)) - time.Millisecond),
			To: newest}
		query, err := cli.ReadQuery(0, q.Query, window)
		if err != nil {
			return err
		}
		answers, err := cli.Ask(ctx, source, []cli.Query{query})
		if err != nil {
			return err
		}
		title := fmt.Sprintf("%s (%.1f ms)", q.Title, float64(time.Since(begin).Microseconds())/1000)
		if answers[0].Error != nil {
			return fmt.Errorf("%s: %w", q.Title, answers[0].Error)
		}
		fmt.Fprintln(out)
		answers[0].Name = ""
		layout := report.Options{Title: title, From: window.From, To: window.To}
		if err := report.Lay(layout, answers).Text(out, demoWidth); err != nil {
			return err
		}
	}
	return nil
}

// newestSnapshot asks the data source for its newest snapshot; it lies in the millisecond before the result.
func newestSnapshot(ctx context.Context, source *host.Source) (time.Time, error) {
	response, err := source.Resource(ctx, "range", "")
	if err != nil {
		return time.Time{}, fmt.Errorf("the range of the data was not answered: %w", err)
	}
	var answer struct {
		Newest  *int64
		Message string
	}
	if err := json.Unmarshal(response.Body, &answer); err != nil || answer.Newest == nil {
		return time.Time{}, fmt.Errorf("there is no snapshot: %s", response.Body)
	}
	return time.UnixMilli(*answer.Newest), nil
}

// startPlugin starts the plugin's binary.
func startPlugin(ctx context.Context, binary string, c *cli.Console) (*host.Process, error) {
	binary, err := findPlugin(ctx, binary, c)
	if err != nil {
		return nil, err
	}
	return host.Start(binary, io.Discard)
}

// findPlugin returns the plugin's binary: the named one, or otherwise that of this checkout, brought up to date.
func findPlugin(ctx context.Context, named string, c *cli.Console) (binary string, err error) {
	if named != "" {
		return named, nil
	}
	root, err := checkout.Root()
	if err != nil {
		return "", fmt.Errorf("%w: name the plugin's binary with --plugin", err)
	}
	begin, stop := time.Now(), cli.Working(c.Err, "Building the plugin")
	binary, err = host.Build(ctx, filepath.Join(root, "dist"))
	stop()
	if err == nil {
		fmt.Fprintf(c.Err, "Plugin: %s (built in %s)\n", binary, time.Since(begin).Round(100*time.Millisecond))
	}
	return binary, err
}

func indent(text string) string {
	indented := ""
	for _, line := range report.Wrap(text, 100) {
		indented += "  " + line + "\n"
	}
	return indented[:len(indented)-1]
}

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
	if err := writeSettings(fleet, map[string]any{"name": "GPU fleet", "url": url, "jsonData": map[string]any{
		"mode": "fleet", "factsIndex": fleetIndex, "timezone": "UTC"}}); err != nil {
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
