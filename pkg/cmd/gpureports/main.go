// Command gpureports answers the data source's questions on the command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"

	"github.com/chtc/gpureports/pkg/pool"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something could not be answered or done
	exitUsage  = 2
)

type commands struct {
	Demo       demoCommand     `cmd:"" help:"Make a sample pool, ask the plugin as Grafana does, print the answers."`
	Query      queryCommand    `cmd:"" help:"Answer queries as the data source does."`
	Report     reportCommand   `cmd:"" help:"Write a report of a pool, as text or HTML."`
	Check      checkCommand    `cmd:"" help:"Say what a new user needs to know of an installation, with remedies."`
	Collect    collectCommand  `cmd:"" help:"Take snapshots of a pool with condor_status."`
	Convert    convertCommand  `cmd:"" help:"Turn month files of SQLite into Parquet and back, compared row by row."`
	Build      buildCommand    `cmd:"" help:"Build finished days ahead of time into the bucket that data sources share."`
	Publish    publishCommand  `cmd:"" help:"Put a pool's hourly facts into Elasticsearch, for data sources of many pools."`
	ImportJobs importCommand   `cmd:"" help:"Put job ads into a job file."`
	Sample     sampleCommand   `cmd:"" help:"Make a sample pool in a directory."`
	Accuracy   accuracyCommand `cmd:"" help:"Measure evictions and durations against pools whose truth is known."`
	Bench      benchCommand    `cmd:"" help:"Measure how fast the product is."`
	LoadAds    loadCommand     `cmd:"" hidden:"" help:"Fill an Elasticsearch with a sample pool's job ads."`
	Bridge     bridgeCommand   `cmd:"" hidden:"" help:"Serve the plugin to browser tests."`
}

// console is what a command reads and writes, and the time at which it was started.
type console struct {
	in       io.Reader
	out, err io.Writer
	now      time.Time
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	log.DefaultLogger = log.NewNullLogger() // answers say what went wrong
	backend.Logger = log.DefaultLogger
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], &console{in: os.Stdin, out: os.Stdout, err: os.Stderr, now: time.Now()})
	stop()
	os.Exit(code)
}

// run parses arguments, runs the command and returns the exit code.
func run(ctx context.Context, args []string, c *console) int {
	exited := -1
	parser, err := kong.New(&commands{},
		kong.Name("gpureports"),
		kong.Description("Who holds the GPUs of an HTCondor pool, what is free, and how long it stays so."),
		kong.Writers(c.out, c.err),
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
		fmt.Fprintf(c.err, "gpureports: %v\nTry gpureports --help.\n", err)
		return exitUsage
	}
	switch err := parsed.Run(); {
	case err == nil:
		return exitOK
	case errors.As(err, new(usageError)), pool.FaultOf(err) == pool.FaultQuery:
		fmt.Fprintf(c.err, "gpureports: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(c.err, "gpureports: %v\n", err)
		return exitFailed
	}
}
