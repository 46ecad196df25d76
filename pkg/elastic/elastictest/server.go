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
)

// ErrNoTools is the error where a program is missing that the server is put together with.
var ErrNoTools = errors.New("a real Elasticsearch is put together with bash, a JDK (javac, 17 or newer) and Maven " +
	"(mvn), and one of them is missing: install them")

// Launch starts a server on a free port of this machine, with a directory of its own, and returns its URL. With a
// password it asks for it, of the user admin. It ends with this process if stop does not end it before. Errors:
// ErrNoTools; what the start script says; ctx's.
func Launch(ctx context.Context, password string) (url string, stop func(), err error) {
	for _, tool := range []string{"bash", "mvn", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", nil, fmt.Errorf("%w (%s)", ErrNoTools, tool)
		}
	}
	scripts, err := folder()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "gpureports-elasticsearch-")
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		// #nosec G204 -- the checkout's own script
		_ = exec.CommandContext(context.WithoutCancel(ctx), "bash", filepath.Join(scripts, "stop.sh"), dir).Run()
		_ = os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // the first time it downloads
	defer cancel()
	// #nosec G204 -- the checkout's own script
	command := exec.CommandContext(ctx, "bash", filepath.Join(scripts, "start.sh"), "0", dir)
	command.Env = append(os.Environ(), "ES_OWNER_PID="+strconv.Itoa(os.Getpid()), "ES_PASSWORD="+password)
	var log bytes.Buffer
	command.Stderr = &log
	text, err := command.Output()
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("starting Elasticsearch: %w\n%s", err, log.String())
	}
	return strings.TrimSpace(string(text)), stop, nil
}

// folder is tests/elasticsearch of the checkout that holds the working directory.
func folder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		found := filepath.Join(dir, "tests", "elasticsearch")
		if _, err := os.Stat(filepath.Join(found, "start.sh")); err == nil {
			return found, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("tests/elasticsearch is not above the working directory: change to a checkout")
		}
		dir = parent
	}
}
