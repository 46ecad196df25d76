package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

type reportCommand struct {
	Settings string   `required:"" type:"path" placeholder:"FILE" help:"The data source's settings."`
	From     string   `placeholder:"T" help:"Start of the time range: RFC 3339, a date, now-24h or now-1M/M (UTC)."`
	To       string   `placeholder:"T" default:"now" help:"End of the time range."`
	Last     string   `placeholder:"24h" help:"Instead of from and to: 24h, 7d (any number of hours or days), or week, month, quarter or fiscal-year for the last complete one."`
	Project  string   `placeholder:"NAME" help:"Report on this project's machines instead of the pool: capacity, use by the owner, use by others."`
	Format   string   `enum:"text,html,csv" default:"text" help:"text or html; with --project also csv."`
	Sections []string `placeholder:"KEY" help:"Only these sections, by key, separated by commas."`
	Title    string   `help:"Title of the report."`
	Timezone string   `placeholder:"ZONE" help:"Time zone in which times are shown. Default: the data source's."`
	Width    int      `default:"100" help:"Columns of text, at least 72."`
	Output   string   `short:"o" type:"path" placeholder:"FILE" help:"Where to write the report. Default: standard output."`
	report.Mail
	idleMails
	asking

	csv func(io.Writer) error // writes an owner's figures
}

// Run writes a report of the pool for people to read.
func (r *reportCommand) Run(ctx context.Context, c *cli.Console) (err error) {
	settings, err := cli.ReadSettings(r.Settings)
	if err != nil {
		return cli.Usage("%w", err)
	}
	parsed, err := plugin.ParseSettings(settings.JSONData)
	if err != nil {
		return cli.Usage("%w", err)
	}
	zone := parsed.Zone().Calendar()
	if strings.TrimSpace(r.Timezone) != "" {
		if zone, err = localtime.Location(r.Timezone); err != nil {
			return cli.Usage("%w", err)
		}
	}
	if err := r.fitsIdle(); err != nil {
		return err
	}
	// Find the window: given by its ends, by its length, or the last week for mails about idle GPUs.
	options := report.Options{Title: r.Title, Sections: r.Sections, Zone: zone, Now: c.Now}
	switch {
	case r.IdleToUsers && r.From == "":
		options.From, options.To = c.Now.AddDate(0, 0, -7), c.Now
	case r.Last != "":
		options.From, options.To, err = report.Last(r.Last, c.Now, zone, parsed.FiscalYearStart)
	case r.From == "":
		err = errors.New("name a time range: --from T [--to T], or --last 24h")
	default:
		window, e := cli.ParseWindow(r.From, r.To, c.Now)
		options.From, options.To, err = window.From, window.To, e
	}
	if err != nil {
		return cli.Usage("%w", err)
	}
	if err := r.fits(); err != nil {
		return err
	}
	// Ask the data source, and hand the report to its reader.
	source, err := r.open(settings, c)
	if err != nil {
		return err
	}
	defer source.Dispose()
	r.Mail.Password = os.Getenv("GPUREPORTS_SMTP_PASSWORD")
	if r.IdleToUsers {
		return r.mailIdle(ctx, c, source, options)
	}
	stop := cli.Working(c.Err, "Asking")
	made, err := r.make(ctx, source, options)
	stop()
	if err != nil {
		return err
	}
	if err := r.hand(ctx, c.Out, made); err != nil {
		return err
	}
	if made.Failed > 0 {
		return fmt.Errorf("%d parts of the report have no answer; the report says why", made.Failed)
	}
	return nil
}

// fits refuses options that do not go together.
func (r *reportCommand) fits() error {
	switch {
	case r.Project != "" && len(r.Sections) > 0:
		return cli.Usage("--project has sections of its own: leave --sections out")
	case r.Format == "csv" && r.Project == "":
		return cli.Usage("--format csv is for --project NAME: use text or html, or `query --format csv`")
	case r.Format == "csv" && len(r.Mail.To) > 0 && r.Output == "":
		return cli.Usage("a mail holds text and HTML: leave --format csv out, or name an --output for it")
	}
	return nil
}

// make makes the report of the pool, or of a project's machines.
func (r *reportCommand) make(ctx context.Context, source *plugin.Datasource, options report.Options) (*report.Report,
	error) {
	if r.Project == "" {
		return report.Make(ctx, source, options)
	}
	owner, err := report.MakeOwner(ctx, source, r.Project, options)
	if err != nil {
		return nil, err
	}
	made := owner.Report()
	made.Title = cmp.Or(r.Title, made.Title)
	r.csv = owner.CSV
	return made, nil
}

// hand mails the report, or writes it, or both.
func (r *reportCommand) hand(ctx context.Context, out io.Writer, made *report.Report) (err error) {
	if len(r.Mail.To) > 0 {
		if err := made.Send(ctx, r.Mail, r.Width); err != nil {
			return err
		}
		if r.Output == "" {
			return nil
		}
	}
	if r.Output == "" {
		return r.write(out, made)
	}
	if info, err := os.Lstat(r.Output); err != nil || info.Mode().IsRegular() {
		return files.Put(r.Output, func(file *os.File) error { return r.write(file, made) })
	}
	file, err := os.Create(r.Output) // a link, or a device such as /dev/stdout
	if err != nil {
		return err
	}
	return errors.Join(r.write(file, made), file.Close())
}

func (r *reportCommand) write(out io.Writer, made *report.Report) (err error) {
	switch r.Format {
	case "html":
		err = made.HTML(out)
	case "csv":
		err = r.csv(out)
	default:
		err = made.Text(out, r.Width)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
