package main

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
)

// mailbox is an SMTP server that keeps the last message.
type mailbox struct {
	to   []string
	text string
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m *mailbox) Mail(string, *smtp.MailOptions) error        { return nil }
func (m *mailbox) Rcpt(to string, _ *smtp.RcptOptions) error   { m.to = append(m.to, to); return nil }
func (m *mailbox) Reset()                                      {}
func (m *mailbox) Logout() error                               { return nil }
func (m *mailbox) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	m.text = string(text)
	return err
}

func TestReportByMail(t *testing.T) {
	box := &mailbox{}
	server := smtp.NewServer(box)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	args := []string{
		"report", "--settings", settingsFor(t, "pool-a"), "--from", "2025-09-30T00:00:00Z", "--to", "2025-10-01T00:00:00Z",
		"--title", "Weekly",
		"--mail-to", "ops@example.org,boss@example.org", "--mail-from", "gpus@example.org", "--smtp",
		listener.Addr().String(),
	}
	code, out, errors := command(t, "", args...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Empty(t, out)
	file := filepath.Join(t.TempDir(), "report.txt")
	code, _, errors = command(t, "", append(args, "--output", file)...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.FileExists(t, file)
	require.NoError(t, server.Close())
	<-done
	require.Equal(t, []string{"ops@example.org", "boss@example.org", "ops@example.org", "boss@example.org"}, box.to)
	require.Contains(t, box.text, "Subject: Weekly: 2025-09-30 00:00 to 2025-10-01 00:00 UTC")
	code, _, errors = command(t, "", args...)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "sending the report by 127.0.0.1:")
}
