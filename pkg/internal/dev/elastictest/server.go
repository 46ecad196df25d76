// Package elastictest starts a real Elasticsearch for tests, benchmarks and the demo: that of the checkout's
// tests/elasticsearch.
package elastictest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

// Launch starts a server on a free port of this machine, with a directory of its own, and returns its URL. With a
// password it asks for it, of the user admin. It ends with this process if stop does not end it before. Errors:
// ErrNoTools; what the start script says; ctx's.
func Launch(ctx context.Context, password string) (url string, stop func(), err error) {
	n := &Node{password: password}
	return n.launch(ctx)
}

// Node is a server of a cluster, with a directory of its own.
type Node struct {
	URL            string
	dir            string
	password, join string
	stop           func()
}

// Begin starts the first node of a cluster: its master, which holds data, too.
func Begin(ctx context.Context) (*Node, error) { return start(ctx, "begin") }

// Join starts another node in a node's cluster, to hold data.
func (n *Node) Join(ctx context.Context) (*Node, error) {
	address, err := n.transport(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the address that nodes join: %w", err)
	}
	return start(ctx, address)
}

func start(ctx context.Context, join string) (*Node, error) {
	n := &Node{join: join}
	var err error
	n.URL, n.stop, err = n.launch(ctx)
	return n, err
}

// Restart starts a node that was killed, with its data on disk.
func (n *Node) Restart(ctx context.Context) (err error) {
	n.URL, err = n.run(ctx)
	return err
}

// Stop ends the node and removes its directory.
func (n *Node) Stop() { n.stop() }

// Process is the node's process.
func (n *Node) Process() (*os.Process, error) {
	text, err := os.ReadFile(filepath.Join(n.dir, "pid"))
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid)
}

// transport is the address that other nodes join.
func (n *Node) transport(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL+"/_nodes/_local/transport", nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var found struct {
		Nodes map[string]struct {
			Transport struct {
				Address string `json:"publish_address"`
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		return "", err
	}
	for _, node := range found.Nodes {
		return node.Transport.Address, nil
	}
	return "", errors.New("the answer has no node")
}

// launch makes the node's directory and starts it.
func (n *Node) launch(ctx context.Context) (url string, stop func(), err error) {
	for _, tool := range []string{"bash", "mvn", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", nil, fmt.Errorf("%w (%s)", ErrNoTools, tool)
		}
	}
	if n.dir, err = os.MkdirTemp("", "gpureports-elasticsearch-"); err != nil {
		return "", nil, err
	}
	stopScript, err := script("stop.sh")
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		// #nosec G204 -- the checkout's own script
		_ = exec.CommandContext(context.WithoutCancel(ctx), "bash", stopScript, n.dir).Run()
		_ = os.RemoveAll(n.dir)
	}
	if url, err = n.run(ctx); err != nil {
		stop()
		return "", nil, err
	}
	return url, stop, nil
}

// run starts the server in the node's directory.
func (n *Node) run(ctx context.Context) (url string, err error) {
	startScript, err := script("start.sh")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // the first time it downloads
	defer cancel()
	// #nosec G204 -- the checkout's own script
	command := exec.CommandContext(ctx, "bash", startScript, "0", n.dir)
	command.Env = append(os.Environ(), "ES_OWNER_PID="+strconv.Itoa(os.Getpid()), "ES_PASSWORD="+n.password,
		"ES_JOIN="+n.join)
	var log bytes.Buffer
	command.Stderr = &log
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("starting Elasticsearch: %w\n%s", err, log.String())
	}
	return strings.TrimSpace(string(text)), nil
}

// script is one of tests/elasticsearch, of the checkout that holds the working directory.
func script(name string) (string, error) {
	root, err := checkout.Root()
	return filepath.Join(root, "tests", "elasticsearch", name), err
}
