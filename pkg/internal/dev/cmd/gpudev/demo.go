package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
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
	for _, line := range report.Wrap(text, report.DefaultWidth) {
		indented += "  " + line + "\n"
	}
	return indented[:len(indented)-1]
}
