package report

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/chtc/gpureports/pkg/pool"
)

// Mail says how a report is sent.
type Mail struct {
	To       []string // addresses, such as ops@example.org or "Operators <ops@example.org>"
	From     string   // "" = gpureports@ this machine
	Server   string   // host:port of the SMTP server; port 25 if none is given
	TLS      string   // starttls-if-offered (default), starttls, tls or none
	User     string   // "" = no authentication; else the connection must be encrypted, or the server offer SCRAM
	Password string

	roots *x509.CertPool // that the server's certificate is checked with; nil = the machine's
}

// mailTimeout bounds the whole exchange with the server.
const mailTimeout = time.Minute

// tlsOptions are the ways to speak to a server.
var tlsOptions = map[string]mail.Option{
	"":                    mail.WithTLSPolicy(mail.TLSOpportunistic),
	"starttls-if-offered": mail.WithTLSPolicy(mail.TLSOpportunistic),
	"starttls":            mail.WithTLSPolicy(mail.TLSMandatory),
	"tls":                 mail.WithSSL(),
	"none":                mail.WithTLSPolicy(mail.NoTLS),
}

// Send mails the report as text (of a width) and as HTML, in one message to all addresses.
// Errors: an address or the server's name is wrong, the server cannot be reached or does not take the message for one
// of the addresses; it was sent to nobody then.
func (r *Report) Send(ctx context.Context, m Mail, width int) error {
	message, err := r.message(m, width)
	if err != nil {
		return err
	}
	host, port, err := m.server()
	if err != nil {
		return err
	}
	policy, known := tlsOptions[m.TLS]
	if !known {
		return pool.BadQuery("unknown way to encrypt mail %q: use starttls-if-offered, starttls, tls or none", m.TLS)
	}
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(mailTimeout), policy,
		mail.WithTLSConfig(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: m.roots}),
	}
	if m.User != "" {
		options = append(options,
			mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.User), mail.WithPassword(m.Password))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return pool.BadQuery("mail server %s: %w", m.Server, err)
	}
	if err := client.DialAndSendWithContext(ctx, message); err != nil {
		return pool.SourceError("sending the report by %s: %w", m.Server, err)
	}
	return nil
}

// message is the report as a mail.
func (r *Report) message(m Mail, width int) (*mail.Msg, error) {
	message := mail.NewMsg()
	from := m.From
	if from == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, pool.BadQuery("this machine has no name: say from whom the mail comes")
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
	if r.Failed > 0 {
		subject += " (incomplete)"
	}
	message.Subject(subject)
	message.SetDate()
	message.SetMessageID()
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	var text, html bytes.Buffer
	if err := r.Text(&text, width); err != nil {
		return nil, err
	}
	if err := r.HTML(&html); err != nil {
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
		host, service, err = net.SplitHostPort(net.JoinHostPort(strings.Trim(m.Server, "[]"), "25"))
	}
	if err == nil {
		port, err = strconv.Atoi(service)
	}
	if err != nil || host == "" || port < 1 || port > 65535 {
		return "", 0, pool.BadQuery("%q names no mail server: use host:port", m.Server)
	}
	return host, port, nil
}
