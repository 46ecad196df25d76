// Package elastictest starts a real Elasticsearch for tests, benchmarks and the demo: that of the checkout's
// tests/elasticsearch.
package elastictest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

// ErrNoTools is the error where a program is missing that the server is put together with.
var ErrNoTools = errors.New("a real Elasticsearch is put together with bash, a JDK (javac, 17 or newer) and Maven " +
	"(mvn), and one of them is missing: install them")

// Server is a server on a free port of this machine, with a directory of its own.
type Server struct {
	Password string // that it asks for, of the user admin; "" = none
	Join     string // the address of a node whose cluster it joins, or begin: others may join it; "" = it is alone

	URL, Dir string // of the running server
}

// Start starts the server, once more if it was killed: then with its data on disk. It ends with this process if Stop
// does not end it before. Errors: ErrNoTools; what the start script says; ctx's.
func (s *Server) Start(ctx context.Context) (err error) {
	for _, tool := range []string{"bash", "mvn", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w (%s)", ErrNoTools, tool)
		}
	}
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	if s.Dir == "" {
		if s.Dir, err = os.MkdirTemp("", "gpureports-elasticsearch-"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // the first time it downloads
	defer cancel()
	// #nosec G204 -- the checkout's own script
	command := exec.CommandContext(ctx, "bash", filepath.Join(root, "tests/elasticsearch/start.sh"), "0", s.Dir)
	command.Env = append(os.Environ(), "ES_OWNER_PID="+strconv.Itoa(os.Getpid()), "ES_PASSWORD="+s.Password,
		"ES_JOIN="+s.Join)
	var log bytes.Buffer
	command.Stderr = &log
	text, err := command.Output()
	if err != nil {
		s.Stop()
		return fmt.Errorf("starting Elasticsearch: %w\n%s", err, log.String())
	}
	s.URL = strings.TrimSpace(string(text))
	return nil
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() {
	root, err := checkout.Root()
	if err != nil || s.Dir == "" {
		return
	}
	// #nosec G204 -- the checkout's own script
	_ = exec.CommandContext(context.Background(), "bash", filepath.Join(root, "tests/elasticsearch/stop.sh"), s.Dir).Run()
	_ = os.RemoveAll(s.Dir)
}
