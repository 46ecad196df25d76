// Package cli is the common part of the commands: how they are run, settings files, queries, times and progress.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/gtime"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/mattn/go-isatty"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // something could not be answered or done
	ExitUsage  = 2
)

// Console has the input and outputs of a command, and the time at which it was started.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	Now      time.Time
}

// Usage makes an error of a mistake on the command line.
func Usage(format string, args ...any) error { return pool.BadQuery(format, args...) }

// Program is a command line program: its commands are fields of a struct, as kong reads them.
type Program struct {
	Name, Description string
	Commands          any
}

// Main runs the program with the process's arguments, until it ends or is interrupted, and exits.
func (p Program) Main() {
	log.DefaultLogger = log.NewNullLogger() // answers report errors
	backend.Logger = log.DefaultLogger
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := p.Run(ctx, os.Args[1:], &Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now()})
	stop()
	os.Exit(code)
}

// Run parses arguments, runs the command and returns the exit code.
func (p Program) Run(ctx context.Context, args []string, c *Console) int {
	exited := -1
	parser, err := kong.New(p.Commands,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(c.Out, c.Err),
		kong.Exit(func(code int) { exited = code }),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(c),
	)
	if err != nil {
		panic(err) // the commands' declaration is wrong
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintf(c.Err, "%s: %v\nTry %s --help.\n", p.Name, err, p.Name)
		return ExitUsage
	}
	if err = parsed.Run(); err == nil {
		return ExitOK
	}
	fmt.Fprintf(c.Err, "%s: %v\n", p.Name, err)
	if pool.FaultOf(err) == pool.FaultQuery {
		return ExitUsage
	}
	return ExitFailed
}

var relativeTime = regexp.MustCompile(`^now(?:-(\d{1,6})([smhdwMy]))?(?:/([hdwMy]))?$`)

// ParseTime reads RFC 3339, a date, or a time relative to now, as Grafana writes it: now, now-24h (s, m, h, d, w, M,
// y), and with /d and the like the beginning of that hour, day, week (Monday), month or year, in UTC.
func ParseTime(text string, now time.Time) (time.Time, error) {
	from, _, err := parsePeriod(text, now)
	return from, err
}

// parsePeriod reads a time, and the end of the period that it names: now/w is this week, from Monday on, and a date a
// day, both in UTC. A time by itself is a period without length.
func parsePeriod(text string, now time.Time) (from, to time.Time, err error) {
	m := relativeTime.FindStringSubmatch(text)
	if m == nil {
		if day, err := time.Parse(time.DateOnly, text); err == nil {
			return day, day.AddDate(0, 0, 1).Add(-time.Microsecond), nil
		}
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			return from, from, Usage("%q is not a time: use RFC 3339 such as 2026-05-14T00:00:00Z, a date (UTC), now-24h (s, "+
				"m, h, d, w, M, y), or now-1M/M for the beginning of a month in UTC", text)
		}
		return from, from, nil
	}
	n, _ := strconv.Atoi(m[1])
	switch m[2] {
	case "M":
		from = monthsBefore(now.UTC(), n)
	case "y":
		from = monthsBefore(now.UTC(), 12*n)
	default:
		unit := map[string]time.Duration{"": 0, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
			"w": 7 * 24 * time.Hour}[m[2]]
		from = now.Add(-time.Duration(n) * unit)
	}
	if m[3] == "" {
		return from, from, nil
	}
	period := gtime.TimeRange{From: "now/" + m[3], To: "now/" + m[3], Now: from}
	from, wrong := period.ParseFrom()
	to, err = period.ParseTo()
	return from, to.Add(time.Millisecond - time.Microsecond), cmp.Or(wrong, err) // to is the last millisecond
}

// monthsBefore is the same day n months before, or the last one of its month.
func monthsBefore(t time.Time, n int) time.Time {
	first := time.Date(t.Year(), t.Month()-time.Month(n), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	return first.AddDate(0, 0, min(t.Day(), first.AddDate(0, 1, -1).Day())-1)
}

// ParseWindow reads the two ends of a window: the beginning of the first period, and the end of the last.
func ParseWindow(from, to string, now time.Time) (backend.TimeRange, error) {
	a, wrong := ParseTime(from, now)
	_, b, err := parsePeriod(to, now)
	return backend.TimeRange{From: a, To: b}, cmp.Or(wrong, err)
}

// ReadSettings reads a settings file: a data source's settings as Grafana's provisioning files hold them, in JSON.
// Directories in it are relative to the file. Errors are those of Usage.
func ReadSettings(path string) (settings backend.DataSourceInstanceSettings, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return settings, Usage("settings: %w", err)
	}
	var file struct {
		backend.DataSourceInstanceSettings
		BasicAuth      bool              `json:"basicAuth"`
		JSONData       map[string]any    `json:"jsonData"`
		SecureJSONData map[string]string `json:"secureJsonData"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return settings, Usage("settings %s: want {\"url\": …, \"jsonData\": {…}, \"secureJsonData\": {…}}: %w", path,
			err)
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return settings, Usage("settings: %w", err)
	}
	for _, key := range []string{"snapshotDir", "cacheDir"} {
		if dir, ok := file.JSONData[key].(string); ok && dir != "" && !filepath.IsAbs(dir) {
			file.JSONData[key] = filepath.Join(base, dir)
		}
	}
	settings, settings.Type = file.DataSourceInstanceSettings, plugin.ID
	settings.BasicAuthEnabled, settings.DecryptedSecureJSONData = file.BasicAuth, file.SecureJSONData
	settings.JSONData, err = json.Marshal(file.JSONData)
	return settings, err
}

// Working shows on a terminal that long work is in progress, until stop is called. Elsewhere it is silent.
func Working(w io.Writer, what string) (stop func()) {
	file, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return func() {}
	}
	return workingOn(w, what, time.Second)
}

// workingOn rewrites one line at each pause, and removes it at the end.
func workingOn(w io.Writer, what string, pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	parallel.Go(func() error {
		begin, written := time.Now(), false
		for parallel.Wait(ctx, pause) == nil {
			fmt.Fprintf(w, "\r%s … %s ", what, time.Since(begin).Round(time.Second))
			written = true
		}
		if written {
			fmt.Fprint(w, "\r\x1b[K")
		}
		return nil
	}, func(error) { close(ended) })
	return func() {
		cancel()
		<-ended
	}
}
