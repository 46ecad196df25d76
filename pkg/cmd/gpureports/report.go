package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

type reportCommand struct {
	Settings string   `required:"" type:"path" placeholder:"FILE" help:"The data source's settings."`
	From     string   `placeholder:"T" help:"Begin of the window: RFC 3339 or now-24h."`
	To       string   `placeholder:"T" default:"now" help:"End of the window."`
	Last     string   `placeholder:"24h" help:"Instead of from and to: 24h, 7d (any number of hours or days), or the calendar's month, quarter or fiscal-year that is over."`
	Format   string   `enum:"text,html" default:"text" help:"text or html."`
	Sections []string `placeholder:"KEY" help:"Only these sections, by key, separated by commas."`
	Title    string   `help:"Title of the report."`
	Timezone string   `placeholder:"ZONE" help:"Time zone in which times are shown. Default: the data source's."`
	Width    int      `default:"100" help:"Columns of text, at least 72."`
	Output   string   `short:"o" type:"path" placeholder:"FILE" help:"Where to write it. Default: standard output."`
	mailOptions
	asking
}

// mailOptions say where a report is mailed.
type mailOptions struct {
	MailTo   []string `placeholder:"ADDRESS" help:"Mail it, as text and as HTML, to these addresses, separated by commas."`
	MailFrom string   `placeholder:"ADDRESS" help:"Whom the mail is from. Default: gpureports@ this machine."`
	SMTP     string   `name:"smtp" placeholder:"HOST:PORT" default:"localhost:25" help:"The mail server."`
	SMTPTLS  string   `name:"smtp-tls" enum:"starttls-if-offered,starttls,tls,none" default:"starttls-if-offered" help:"How the connection is encrypted: starttls-if-offered, starttls, tls or none."`
	SMTPUser string   `name:"smtp-user" placeholder:"USER" help:"The user at the mail server; the password is the environment variable GPUREPORTS_SMTP_PASSWORD."`
}

// mail is what the report package needs to know.
func (m mailOptions) mail() report.Mail {
	return report.Mail{
		To: m.MailTo, From: m.MailFrom, Server: m.SMTP, TLS: m.SMTPTLS,
		User: m.SMTPUser, Password: os.Getenv("GPUREPORTS_SMTP_PASSWORD"),
	}
}

// Run writes a report of the pool for people to read.
func (r *reportCommand) Run(ctx context.Context, c *console) (err error) {
	settings, err := readSettings(r.Settings)
	if err != nil {
		return usageError{err}
	}
	parsed, err := plugin.ParseSettings(settings.JSONData)
	if err != nil {
		return usageError{err}
	}
	zone, err := r.zone(&parsed)
	if err != nil {
		return usageError{err}
	}
	options := report.Options{Title: r.Title, Sections: r.Sections, Zone: zone, Now: c.now}
	switch {
	case r.Last != "":
		options.From, options.To, err = report.Last(r.Last, c.now, zone, parsed.FiscalYearStart)
	case r.From == "":
		err = errors.New("name a window: --from T [--to T], or --last 24h")
	default:
		window, e := parseWindow(r.From, r.To, c.now)
		options.From, options.To, err = window.From, window.To, e
	}
	if err != nil {
		return usageError{err}
	}
	source, err := r.open(settings, c)
	if err != nil {
		return err
	}
	defer source.Dispose()
	stop := working(c.err, "Asking")
	made, err := report.Make(ctx, source, options)
	stop()
	if err != nil {
		return err
	}
	if err := r.hand(ctx, c.out, made); err != nil {
		return err
	}
	if made.Failed > 0 {
		return fmt.Errorf("%d parts of the report have no answer; the report says why", made.Failed)
	}
	return nil
}

// hand mails the report, or writes it, or both.
func (r *reportCommand) hand(ctx context.Context, out io.Writer, made *report.Report) (err error) {
	if len(r.MailTo) > 0 {
		if err := made.Send(ctx, r.mail(), r.Width); err != nil {
			return err
		}
		if r.Output == "" {
			return nil
		}
	}
	if r.Output != "" {
		file, err := os.Create(r.Output)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		return r.write(file, made)
	}
	return r.write(out, made)
}

func (r *reportCommand) write(out io.Writer, made *report.Report) error {
	if err := r.writeAs(out, made); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r *reportCommand) writeAs(out io.Writer, made *report.Report) error {
	if r.Format == "html" {
		return made.HTML(out)
	}
	return made.Text(out, r.Width)
}

// zone is the zone of the command line, else the calendar's of the settings.
func (r *reportCommand) zone(settings *plugin.Settings) (*time.Location, error) {
	if strings.TrimSpace(r.Timezone) != "" {
		return localtime.Location(r.Timezone)
	}
	return settings.Zone().Calendar(), nil
}
