// Package cli is the common part of the commands: how they are run, settings files, queries, times and progress.
package cli

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

// usageError is a mistake on the command line.
type usageError struct{ error }

// Usage makes an error of a mistake on the command line.
func Usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

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
	switch err := parsed.Run(); {
	case err == nil:
		return ExitOK
	case errors.As(err, new(usageError)), pool.FaultOf(err) == pool.FaultQuery:
		fmt.Fprintf(c.Err, "%s: %v\n", p.Name, err)
		return ExitUsage
	default:
		fmt.Fprintf(c.Err, "%s: %v\n", p.Name, err)
		return ExitFailed
	}
}
