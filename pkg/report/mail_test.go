package report

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
		Server: box.serve(t), User: "reports", Password: "secret", roots: roots, TLS: "starttls-if-offered",
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
		roots: roots, TLS: "starttls-if-offered",
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
		Server: box.serve(t), TLS: "starttls-if-offered"}, 80))
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
		pause: time.Millisecond, TLS: "starttls-if-offered"}
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

func series(category string, start time.Time, values ...float64) *data.Frame {
	var times []time.Time
	var kept []float64
	for i, v := range values {
		if !math.IsNaN(v) {
			times, kept = append(times, start.Add(time.Duration(i)*time.Hour)), append(kept, v)
		}
	}
	return data.NewFrame("", data.NewField("time", nil, times),
		data.NewField("allocated", data.Labels{"category": category}, kept))
}

// Two hours, a gap, an hour: two pieces, the second category on the first.
func TestAllocationChart(t *testing.T) {
	from := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	o := Options{From: from, To: from.Add(4 * time.Hour), Zone: time.UTC}
	none := math.NaN()
	b := allocationChart(o, data.Frames{series("Open Capacity", from, 2, 4, none, 2),
		series("Backfill", from, 1, 0, none, 2)})
	c := b.Chart
	require.Equal(t, Box{56, 24, 804, 256}, c.Plot)
	// 4 GPUs reach the top; 232 px for 4, 187 for an hour
	require.Equal(t, "M56 140H243V24H430V256H243V256H56ZM617 140H804V256H617Z", c.Shapes[0].Path)
	require.Contains(t, c.Shapes[1].Path, "M56 82H243V24H430V24H243V140H56Z")
	require.Equal(t, []string{"Open Capacity: between 2.0 and 4.0", "Backfill: between 0.0 and 2.0"}, c.Told)
	require.Equal(t, []string{"Oct 1", "01:00", "02:00", "03:00", "04:00"}, labels(c.X))
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, labels(c.Y))
	require.Nil(t, allocationChart(o, data.Frames{data.NewFrame("")}).Chart)
}

func labels(ticks []Tick) (texts []string) {
	for _, t := range ticks {
		texts = append(texts, t.Label)
	}
	return texts
}

// Calendar times, also on the days on which the clock changes.
func TestTimeTicks(t *testing.T) {
	chicago, err := time.LoadLocation("America/Chicago")
	require.NoError(t, err)
	from := time.Date(2025, 11, 1, 0, 0, 0, 0, chicago)
	for _, c := range []struct {
		length time.Duration
		want   string
	}{
		{4 * time.Hour, "Nov 1 01:00 02:00 03:00 04:00"},
		{30 * time.Hour, "Nov 1 06:00 12:00 18:00 Nov 2"}, // to 05:00 standard time
		{7 * 24 * time.Hour, "Nov 1 Nov 2 Nov 3 Nov 4 Nov 5 Nov 6 Nov 7"},
		{30 * 24 * time.Hour, "Nov 1 Nov 8 Nov 15 Nov 22 Nov 29"},
	} {
		o := Options{From: from, To: from.Add(c.length), Zone: chicago}
		got := strings.Join(labels(o.timeTicks(func(time.Time) float64 { return 0 })), " ")
		require.Equal(t, c.want, got, c.length)
	}
}

func TestTimeTicksWhereTheClockChanges(t *testing.T) {
	for name, change := range map[string]string{
		"America/Chicago": "2026-03-08", "Europe/Berlin": "2026-10-25", "Africa/Cairo": "2026-04-24",
		"Australia/Lord_Howe": "2026-10-04", "Pacific/Apia": "2011-12-30", "America/Nuuk": "2026-03-28",
	} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		day, err := time.Parse(time.DateOnly, change)
		require.NoError(t, err)
		for hours := range 96 {
			o := Options{From: day.Add(-36 * time.Hour), To: day.Add(time.Duration(hours-35) * time.Hour), Zone: zone}
			var at []float64
			for _, tick := range o.timeTicks(func(t time.Time) float64 { return float64(t.UnixMilli()) }) {
				at = append(at, tick.At)
			}
			require.LessOrEqual(t, len(at), 11)
			require.True(t, slices.IsSorted(at))
			require.Len(t, slices.Compact(slices.Clone(at)), len(at))
		}
	}
}

func TestSurvivalChart(t *testing.T) {
	number := func(values ...float64) []*float64 {
		all := make([]*float64, len(values))
		for i := range values {
			if !math.IsNaN(values[i]) {
				all[i] = &values[i]
			}
		}
		return all
	}
	none := math.NaN()
	frame := data.NewFrame("", data.NewField("hours", nil, []float64{0, 1, 2, 4}),
		data.NewField("survival", data.Labels{"machineType": "Priority"}, number(1, 0.5, 0.25, none)),
		data.NewField("low", nil, number(1, 0.25, 0, none)), data.NewField("high", nil, number(1, 0.75, 0.5, none)))
	c := survivalChart(Options{}, data.Frames{frame}).Chart
	require.Len(t, c.Shapes, 2)
	require.Equal(t, Shape{Kind: "band", Color: 1, Name: "Priority", Path: "M56 24H243V82H430V140V256V198H243V24H56Z"},
		c.Shapes[0])
	require.Equal(t, Shape{Kind: "line", Color: 1, Name: "Priority", Path: "M56 24H243V140H430V198"}, c.Shapes[1])
	require.Equal(t, []string{"Priority: 25 % after 2.0 hours"}, c.Told)
}

var coordinate = regexp.MustCompile(`[MHV ]?(-?[0-9.]+)`)

// Whatever the values, a chart stays within its drawing and its axis reaches them.
func TestChartsStayInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := time.Date(2025, 10, 1, rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute"), 0, 0,
			time.UTC)
		hours := rapid.IntRange(1, 60).Draw(t, "hours")
		o := Options{From: from, To: from.Add(time.Duration(hours)*time.Hour + 20*time.Minute), Zone: time.UTC}
		var frames data.Frames
		for range rapid.IntRange(1, 7).Draw(t, "series") {
			values := make([]float64, hours)
			for i := range values {
				values[i] = rapid.Float64Range(0, math.Pow(10, float64(rapid.IntRange(-2, 6).Draw(t, "size")))).Draw(t, "value")
			}
			frames = append(frames, series("c", from.Truncate(time.Hour), values...))
		}
		c := allocationChart(o, frames).Chart
		require.LessOrEqual(t, len(c.Y), 8)
		require.LessOrEqual(t, len(c.X), 11)
		for _, s := range c.Shapes {
			for _, m := range coordinate.FindAllStringSubmatch(s.Path, -1) {
				v, err := strconv.ParseFloat(m[1], 64)
				require.NoError(t, err)
				require.True(t, v >= 0 && v <= chartWidth, "%s in %s", m[1], s.Path)
			}
			require.NotContains(t, s.Path, "NaN")
			require.NotContains(t, s.Path, "Inf")
		}
	})
}
