package report

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/remote"
)

// Mail says how a report is sent. Addresses are such as ops@example.org or "Operators <ops@example.org>". With a user,
// the connection must be encrypted, or the server offer SCRAM.
type Mail struct {
	To       []string `name:"mail-to" placeholder:"ADDRESS" help:"Mail the report, as text and as HTML, to these addresses, separated by commas."`
	From     string   `name:"mail-from" placeholder:"ADDRESS" help:"Sender of the mail. Default: gpureports@ this machine."`
	Server   string   `name:"smtp" placeholder:"HOST:PORT" default:"localhost:25" help:"The mail server."`
	Helo     string   `name:"smtp-helo" placeholder:"NAME" help:"Name of this machine for the mail server (EHLO). Default: the sender's domain."`
	TLS      string   `name:"smtp-tls" enum:"starttls-if-offered,starttls,tls,none" default:"starttls-if-offered" help:"How the connection is encrypted: starttls-if-offered, starttls, tls or none."`
	User     string   `name:"smtp-user" placeholder:"USER" help:"User name for the mail server; the password is in the environment variable GPUREPORTS_SMTP_PASSWORD."`
	Password string   `kong:"-"`

	roots *x509.CertPool `kong:"-"` // that the server's certificate is checked with; nil = the machine's
	pause time.Duration  `kong:"-"` // before the second try; 0 = a minute
}

// greylisting is how often a message is sent, within half an hour: some servers let a stranger wait some minutes.
var greylisting = remote.Policy{Attempts: 6, First: time.Minute, Longest: 10 * time.Minute}

// mailTimeout bounds the whole exchange with the server.
const mailTimeout = time.Minute

// tlsOptions are the ways to speak to a server.
var tlsOptions = map[string]mail.Option{
	"starttls-if-offered": mail.WithTLSPolicy(mail.TLSOpportunistic),
	"starttls":            mail.WithTLSPolicy(mail.TLSMandatory),
	"tls":                 mail.WithSSL(),
	"none":                mail.WithTLSPolicy(mail.NoTLS),
}

// Send mails the report as text (of a width) and as HTML, in one message to all addresses. A server that refuses for
// the moment is asked again for half an hour. Errors: an address or the server's name is wrong, the server cannot be
// reached or rejects one of the addresses; no recipient has received the message then.
func (r *Report) Send(ctx context.Context, m Mail, width int) error {
	message, err := r.message(m, width)
	if err != nil {
		return err
	}
	host, port, err := m.server()
	if err != nil {
		return err
	}
	// Connect as the options say.
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(mailTimeout), tlsOptions[m.TLS],
		mail.WithTLSConfig(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: m.roots,
			InsecureSkipVerify: m.trusts(host)}), //nolint:gosec // see trusts
	}
	if m.Helo == "" {
		_, m.Helo, _ = strings.Cut(message.GetFrom()[0].Address, "@")
	}
	options = append(options, mail.WithHELO(m.Helo))
	if m.User != "" {
		options = append(options,
			mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.User), mail.WithPassword(m.Password))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return pool.BadQuery("mail server %s: %w", m.Server, err)
	}
	// Send it, again and again while the server refuses for the moment.
	tries := greylisting
	tries.First = cmp.Or(m.pause, tries.First)
	err = remote.Retry(ctx, tries, func() error {
		err := client.DialAndSendWithContext(ctx, message)
		var refused *mail.SendError
		if errors.As(err, &refused) && refused.IsTemp() {
			return &remote.Temporary{Err: err}
		}
		return err
	})
	var unknown *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unknown):
		return pool.SourceError("sending the report by %s: %w: name the server as its certificate does, or use --smtp-tls "+
			"none inside your own network", m.Server, err)
	case err != nil:
		return pool.SourceError("sending the report by %s: %w", m.Server, err)
	}
	return nil
}

// trusts reports whether the server's certificate is not checked: on this machine, because encryption is only used
// there if it is offered. Postfix on Debian offers it with a certificate that it has signed itself.
func (m Mail) trusts(host string) bool {
	address := net.ParseIP(host)
	return m.TLS == "starttls-if-offered" && (host == "localhost" || address != nil && address.IsLoopback())
}

// message is the report as a mail.
func (r *Report) message(m Mail, width int) (*mail.Msg, error) {
	message := mail.NewMsg()
	from := m.From
	if from == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, pool.BadQuery("this machine has no host name: set the sender address")
		}
		from = "GPU Reports <gpureports@" + host + ">"
	}
	if err := message.From(from); err != nil {
		return nil, pool.BadQuery("mail from %q: %w", from, err)
	}
	if err := message.To(m.To...); err != nil {
		return nil, pool.BadQuery("mail to %s: %w", strings.Join(m.To, ", "), err)
	}
	subject := r.Title + ": " + r.Subtitle
	if r.Headline != "" {
		subject += "; " + r.Headline
	}
	if r.Failed > 0 {
		subject += " (incomplete)"
	}
	message.Subject(subject)
	message.SetDate()
	message.SetMessageID()
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	var text, html bytes.Buffer
	if err := errors.Join(r.Text(&text, width), r.HTML(&html)); err != nil {
		return nil, err
	}
	message.SetBodyString(mail.TypeTextPlain, text.String())
	message.AddAlternativeString(mail.TypeTextHTML, html.String())
	return message, nil
}

// server splits the server's address.
func (m Mail) server() (host string, port int, err error) {
	host, service, err := net.SplitHostPort(m.Server)
	if err != nil {
		host, service = strings.Trim(m.Server, "[]"), "25"
	}
	if port, err = strconv.Atoi(service); err != nil || host == "" || port < 1 || port > 65535 {
		return "", 0, pool.BadQuery("%q names no mail server: use host:port", m.Server)
	}
	return host, port, nil
}
