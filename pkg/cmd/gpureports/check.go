package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

type checkCommand struct {
	Settings string `required:"" type:"path" placeholder:"FILE" help:"The data source's settings."`
	Last     string `default:"7d" help:"How far back to check for gaps, links with job ads, and clocks: 24h, 7d."`
	Format   string `enum:"text,json" default:"text" help:"text or json."`
}

var lastOf = regexp.MustCompile(`^[1-9]\d{0,4}[hdw]$`)

// Run checks an installation and prints the findings. It fails if one is worse than a note.
func (k *checkCommand) Run(ctx context.Context, c *cli.Console) error {
	// Check the data source.
	if !lastOf.MatchString(k.Last) {
		return cli.Usage("--last %q: write a number of hours, days or weeks, such as 24h, 7d or 2w", k.Last)
	}
	begin, err := cli.ParseTime("now-"+k.Last, c.Now)
	if err != nil {
		return err
	}
	settings, err := cli.ReadSettings(k.Settings)
	if err != nil {
		return err
	}
	source := plugin.Open(settings, func() time.Time { return c.Now })
	defer source.Dispose()
	stop := cli.Working(c.Err, "Checking")
	findings, err := source.Check(ctx, c.Now.Sub(begin))
	stop()
	if err != nil {
		return err
	}
	// Print the findings, and how many there are of each severity.
	counts := map[string]int{}
	for _, f := range findings {
		counts[f.Severity]++
	}
	if k.Format == "json" {
		encoder := json.NewEncoder(c.Out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(map[string]any{"checked": c.Now.UTC(), "counts": counts, "findings": findings})
	} else {
		w := bufio.NewWriter(c.Out)
		for _, f := range findings {
			text := strings.ToUpper(f.Text[:1]) + strings.TrimRight(f.Text[1:], ".") + "."
			name := f.Severity
			for _, line := range report.Wrap(report.Sentence(text), 88) {
				fmt.Fprintf(w, "%-8s %s\n", name, line)
				name = ""
			}
		}
		fmt.Fprintf(w, "\n%s.\n", tally(counts))
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	if bad := counts[check.Error] + counts[check.Warning]; bad > 0 {
		return fmt.Errorf("%d of %d findings are more than notes", bad, len(findings))
	}
	return nil
}

// tally says how many findings of each severity there are, the worst first.
func tally(counts map[string]int) string {
	var parts []string
	for _, severity := range check.Severities {
		switch n := counts[severity]; {
		case severity == check.OK:
			parts = append(parts, fmt.Sprintf("%d ok", n))
		case n == 1:
			parts = append(parts, "1 "+severity)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, severity))
		}
	}
	return strings.Join(parts, ", ")
}
