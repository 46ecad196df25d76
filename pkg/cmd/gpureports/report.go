package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

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
		return err
	}
	parsed, err := plugin.ParseSettings(settings.JSONData)
	if err != nil {
		return err
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
		err = cli.Usage("name a time range: --from T [--to T], or --last 24h")
	default:
		window, e := cli.ParseWindow(r.From, r.To, c.Now)
		options.From, options.To, err = window.From, window.To, e
	}
	if err != nil {
		return err
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

// idleMails has the options of the mails to users with idle GPUs.
type idleMails struct {
	IdleToUsers   bool   `help:"Instead of a report: write one mail to each user whose jobs hold GPUs that compute nothing now, with the idle hours of the last 7 days. Print the mails; with --send, send them. --exclude-user leaves users out."`
	MailDomain    string `placeholder:"DOMAIN" help:"With --idle-to-users: mail user alice at alice@DOMAIN."`
	MailAddresses string `type:"path" placeholder:"FILE" help:"With --idle-to-users: addresses of users, a line each, such as alice: alice.smith@example.org. They come before --mail-domain."`
	Contact       string `placeholder:"TEXT" help:"With --idle-to-users: whom users can ask, for example help@example.org."`
	Send          bool   `help:"With --idle-to-users: send the mails."`
	State         string `type:"path" placeholder:"FILE" help:"With --send: remembers who was mailed today. Each user gets at most one mail a day."`
}

// fitsIdle refuses options that do not go together.
func (r *reportCommand) fitsIdle() error {
	switch {
	case !r.IdleToUsers && (r.Send || r.State != "" || r.MailDomain != "" || r.MailAddresses != "" || r.Contact != ""):
		return cli.Usage("--send, --state, --mail-domain, --mail-addresses and --contact are for --idle-to-users")
	case !r.IdleToUsers:
		return nil
	case r.Pseudonyms:
		return cli.Usage("--idle-to-users needs the names of users: leave --pseudonyms out")
	case r.Last != "" || r.To != "now":
		return cli.Usage("--idle-to-users is about now: leave --last and --to out")
	case r.Project != "" || len(r.Sections) > 0 || r.Format != "text" || r.Output != "" || len(r.Mail.To) > 0:
		return cli.Usage("--idle-to-users goes to users as text and HTML: leave --project, --sections, --format, --output " +
			"and --mail-to out")
	case r.MailDomain == "" && r.MailAddresses == "":
		return cli.Usage("--idle-to-users needs addresses: name --mail-domain DOMAIN or --mail-addresses FILE")
	case r.Send && r.State == "":
		return cli.Usage("--send needs --state FILE, which remembers who was mailed today")
	}
	return nil
}

// addresses reads where users are mailed.
func (r *reportCommand) addresses() (to report.Addresses, err error) {
	to.Domain = r.MailDomain
	if r.MailAddresses != "" {
		text, err := os.ReadFile(r.MailAddresses)
		if err == nil {
			err = yaml.Unmarshal(text, &to.Of)
		}
		if err != nil {
			return to, cli.Usage("--mail-addresses %s: %w: write lines such as alice: alice.smith@example.org",
				r.MailAddresses, err)
		}
	}
	return to, to.Check()
}

// mailIdle writes to the users whose jobs hold idle GPUs, or prints what it would write.
func (r *reportCommand) mailIdle(ctx context.Context, c *cli.Console, source *plugin.Datasource,
	o report.Options) error {
	to, err := r.addresses()
	if err != nil {
		return err
	}
	letters, err := report.IdleLetters(ctx, source, o, to, r.Contact)
	if err != nil {
		return err
	}
	// Read who was mailed today, unless nothing is sent.
	mailed := &mailed{file: r.State, day: o.Now.In(o.Zone).Format(time.DateOnly)}
	if r.Send {
		held, err := files.Lock(r.State + ".lock")
		if err != nil {
			return fmt.Errorf("--state: %w: nobody is mailed", err)
		}
		defer held.Close()
		if err := mailed.read(); err != nil {
			return err
		}
	}
	// Print or mail each letter; a failure does not keep the others from their readers.
	sent, again := 0, 0
	var failed []error
	for _, letter := range letters {
		switch {
		case letter.Address == "":
			fmt.Fprintf(c.Err, "user %q has idle GPUs and no mail address\n", letter.User)
			continue
		case !r.Send:
			_, head := fmt.Fprintf(c.Out, "To: %s\n\n", letter.Address)
			text := letter.Text(c.Out, r.Width)
			_, end := fmt.Fprint(c.Out, "\n\n")
			if err := errors.Join(head, text, end); err != nil {
				return fmt.Errorf("writing the mails: %w", err)
			}
			continue
		case mailed.Users[letter.User] == mailed.day:
			again++
			continue
		}
		// The state comes first: a crash between the two must not mail a user twice.
		if err := mailed.add(letter.User); err != nil {
			return errors.Join(append(failed, err)...)
		}
		m := r.Mail
		m.To = []string{letter.Address}
		if err := letter.Send(ctx, m, r.Width); err != nil {
			failed = append(failed, fmt.Errorf("mail to %s: %w", letter.Address, err))
			continue
		}
		sent++
	}
	if r.Send {
		fmt.Fprintf(c.Err, "%d users have idle GPUs: %d mailed, %d mailed earlier today\n", len(letters), sent, again)
	} else {
		fmt.Fprintf(c.Err, "%d users have idle GPUs; nothing is sent without --send\n", len(letters))
	}
	return errors.Join(failed...)
}

// mailed remembers on which day users were mailed last.
type mailed struct {
	file, day string
	Users     map[string]string `json:"mailed"` // day, such as 2026-11-28, by user
}

// read reads the file, if it exists, without the users of other days.
func (m *mailed) read() error {
	m.Users = map[string]string{}
	text, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(m)
	}
	if err != nil {
		return fmt.Errorf("--state: who was mailed today is unknown, so nobody is mailed: reading %s: %w", m.file, err)
	}
	maps.DeleteFunc(m.Users, func(_, day string) bool { return day != m.day })
	return nil
}

// add adds a user and writes the file.
func (m *mailed) add(user string) error {
	m.Users[user] = m.day
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = files.Put(m.file, func(out *os.File) error {
			_, err := out.Write(append(text, '\n'))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("--state: %w: nobody else is mailed", err)
	}
	return nil
}
