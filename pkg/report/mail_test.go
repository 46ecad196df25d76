package report

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// mailbox is an SMTP server that keeps the messages it receives.
type mailbox struct {
	mu       sync.Mutex
	accounts map[string]string // needed to send; none: everybody may
	refuse   string            // an address that it does not know
	grey     int               // so often it takes no message
	helo     string            // name of the last client
	messages []delivered

	certificate *tls.Certificate // nil: it does not encrypt
}

// encrypted gives the server a certificate, and the pool that it is checked with.
func (m *mailbox) encrypted(t *testing.T) *x509.CertPool {
	t.Helper()
	lender := httptest.NewTLSServer(nil)
	t.Cleanup(lender.Close)
	m.certificate = &lender.TLS.Certificates[0]
	roots := x509.NewCertPool()
	roots.AddCert(lender.Certificate())
	return roots
}

type delivered struct {
	from string
	to   []string
	data string
}

type session struct {
	*mailbox
	message delivered
	known   bool
}

func (m *mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.helo = c.Hostname()
	return &session{mailbox: m, known: len(m.accounts) == 0}, nil
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if want, known := s.accounts[user]; !known || want != password {
			return errors.New("wrong user or password")
		}
		s.known = true
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	s.message.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grey > 0 {
		s.grey--
		return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: "greylisted"}
	}
	if to == s.refuse {
		return &smtp.SMTPError{Code: 550, Message: "no such user here"}
	}
	s.message.to = append(s.message.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.message.data = string(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, s.message)
	return err
}

func (s *session) Reset()        { s.message = delivered{} }
func (s *session) Logout() error { return nil }

// serve starts the server and returns its address.
func (m *mailbox) serve(t *testing.T) string {
	t.Helper()
	server := smtp.NewServer(m)
	if m.certificate != nil {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*m.certificate}, MinVersion: tls.VersionTLS12}
	}
	server.Domain = "localhost"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-done
	})
	return listener.Addr().String()
}

func mailed() *Report {
	return &Report{
		Title: "GPU report für alle", Subtitle: "2025-10-01 to 2025-10-02", Headline: "allocated: real 71.3%",
		Facts: []Fact{{"Coverage", "100 %"}},
		Sections: []Section{{Key: "real", Title: "Slots",
			Blocks: []Block{{Paragraphs: []string{strings.Repeat("long ", 400) + "<b>&"}}}}},
	}
}

// The message has a text and an HTML part, which are what the report writes.
func TestMail(t *testing.T) {
	box := &mailbox{accounts: map[string]string{"reports": "secret"}}
	roots := box.encrypted(t)
	r := mailed()
	m := Mail{
		To: []string{"Operators <ops@example.org>", "boss@example.org"}, From: "reports@example.org",
		Server: box.serve(t), User: "reports", Password: "secret", roots: roots,
	}
	require.NoError(t, r.Send(t.Context(), m, 80))
	require.Len(t, box.messages, 1)
	got := box.messages[0]
	require.Equal(t, "reports@example.org", got.from)
	require.Equal(t, []string{"ops@example.org", "boss@example.org"}, got.to)
	message, err := mail.ReadMessage(strings.NewReader(got.data))
	require.NoError(t, err)
	subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, "GPU report für alle: 2025-10-01 to 2025-10-02; allocated: real 71.3%", subject)
	require.Equal(t, "auto-generated", message.Header.Get("Auto-Submitted"))
	date, err := message.Header.Date()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), date, time.Hour)
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/alternative", kind)
	parts := multipart.NewReader(message.Body, parameters["boundary"])
	var text, html strings.Builder
	require.NoError(t, r.Text(&text, 80))
	require.NoError(t, r.HTML(&html))
	for _, want := range []struct{ kind, body string }{{"text/plain", text.String()}, {"text/html", html.String()}} {
		part, err := parts.NextRawPart()
		require.NoError(t, err)
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		require.NoError(t, err)
		require.Equal(t, want.kind, kind)
		require.Equal(t, "quoted-printable", part.Header.Get("Content-Transfer-Encoding"))
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(want.body), strings.TrimSpace(strings.ReplaceAll(string(body), "\r\n", "\n")))
	}
	_, err = parts.NextRawPart()
	require.ErrorIs(t, err, io.EOF)

	r.Failed = 2
	require.NoError(t, r.Send(t.Context(), m, 80))
	message, err = mail.ReadMessage(strings.NewReader(box.messages[1].data))
	require.NoError(t, err)
	subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	require.NoError(t, err)
	require.Contains(t, subject, "(incomplete)")
}

// What goes wrong is said, and whose fault it is.
func TestMailFails(t *testing.T) {
	box := &mailbox{accounts: map[string]string{"reports": "secret"}, refuse: "gone@example.org"}
	roots := box.encrypted(t)
	server := box.serve(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	good := Mail{
		To: []string{"ops@example.org"}, From: "reports@example.org", Server: server, User: "reports", Password: "secret",
		roots: roots,
	}
	for name, c := range map[string]struct {
		change func(*Mail)
		want   string
		fault  pool.Fault
	}{
		"to":       {func(m *Mail) { m.To = []string{"ops at example.org"} }, "mail to ops at example.org", pool.FaultQuery},
		"from":     {func(m *Mail) { m.From = "@" }, `mail from "@"`, pool.FaultQuery},
		"port":     {func(m *Mail) { m.Server = "localhost:mail" }, "use host:port", pool.FaultQuery},
		"no name":  {func(m *Mail) { m.Server = ":25" }, "use host:port", pool.FaultQuery},
		"no trust": {func(m *Mail) { m.roots, m.TLS = nil, "starttls" }, "or use --smtp-tls none", pool.FaultSource},
		"no tls":   {func(m *Mail) { m.TLS = "none" }, "sending the report by", pool.FaultSource},
		"password": {func(m *Mail) { m.Password = "wrong" }, "sending the report by", pool.FaultSource},
		"unknown":  {func(m *Mail) { m.To = append(m.To, "gone@example.org") }, "no such user here", pool.FaultSource},
		"closed":   {func(m *Mail) { m.Server = closed.Addr().String() }, "refused", pool.FaultSource},
	} {
		t.Run(name, func(t *testing.T) {
			m := good
			c.change(&m)
			err := mailed().Send(t.Context(), m, 80)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.fault, pool.FaultOf(err))
			require.NotContains(t, err.Error(), "secret")
		})
	}
	require.Empty(t, box.messages)
}

// A server inside that neither encrypts nor asks who sends takes the mail too.
func TestMailWithoutEncryption(t *testing.T) {
	box := &mailbox{}
	require.NoError(t, mailed().Send(t.Context(), Mail{To: []string{"ops@example.org"}, From: "a@example.org",
		Server: box.serve(t)}, 80))
	require.Len(t, box.messages, 1)
	require.ErrorContains(t, mailed().Send(t.Context(), Mail{
		To: []string{"ops@example.org"}, From: "a@example.org", Server: box.serve(t), TLS: "starttls",
	}, 80), "STARTTLS")
}

// A mail server on this machine offers encryption with a certificate that it has signed itself, wants a full name, and
// takes the mail of a stranger at the third try.
func TestMailByThisMachine(t *testing.T) {
	box := &mailbox{grey: 2}
	box.encrypted(t)
	m := Mail{To: []string{"ops@example.org"}, From: "Reports <a@pool.example.org>", Server: box.serve(t),
		pause: time.Millisecond}
	require.NoError(t, mailed().Send(t.Context(), m, 80))
	require.Len(t, box.messages, 1)
	require.Equal(t, "pool.example.org", box.helo)
	m.Helo = "gpu.example.org"
	require.NoError(t, mailed().Send(t.Context(), m, 80))
	require.Equal(t, "gpu.example.org", box.helo)

	box.grey = 1000
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorContains(t, mailed().Send(ctx, m, 80), "greylisted")
}
