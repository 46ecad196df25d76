package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

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
