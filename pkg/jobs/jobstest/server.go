package jobstest

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
	"sync"
	"testing"
	"time"
)

// Servers of this test process, by password.
var (
	serversMu sync.Mutex
	servers   = map[string]*server{}
)

type server struct {
	url     string
	err     error
	folder  string // of the fixture
	dataDir string
}

// errNoFixture: the machine cannot run the fixture.
var errNoFixture = errors.New("the Elasticsearch fixture needs a JDK and Maven (mvn, javac), or ELASTICSEARCH_URL")

// Password is the password of the user admin of [SecuredElasticsearch].
const Password = "made-up-for-tests"

// Elasticsearch returns the URL of a real Elasticsearch: ELASTICSEARCH_URL where set, else the fixture of
// tests/elasticsearch, started once per test process. The package's TestMain calls [StopServers]. Where the fixture
// cannot run, the test is skipped; it fails where CI is set.
func Elasticsearch(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("ELASTICSEARCH_URL"); url != "" {
		return url
	}
	return fixture(t, "")
}

// SecuredElasticsearch is the fixture with security on: user admin, [Password].
func SecuredElasticsearch(t testing.TB) string {
	t.Helper()
	return fixture(t, Password)
}

func fixture(t testing.TB, password string) string {
	t.Helper()
	serversMu.Lock()
	defer serversMu.Unlock()
	if servers[password] == nil {
		servers[password] = start(password)
	}
	s := servers[password]
	if s.err == nil {
		return s.url
	}
	if os.Getenv("CI") != "" || !errors.Is(s.err, errNoFixture) {
		t.Fatal(s.err)
	}
	t.Skip(s.err)
	return ""
}

func start(password string) *server {
	s := &server{}
	for _, tool := range []string{"bash", "mvn", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			s.err = errNoFixture
			return s
		}
	}
	if s.folder, s.err = fixtureFolder(); s.err != nil {
		return s
	}
	if s.dataDir, s.err = os.MkdirTemp("", "elasticsearch-"); s.err != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first time it downloads
	defer cancel()
	command := exec.CommandContext(ctx, "bash", filepath.Join(s.folder, "start.sh"), "0", s.dataDir)
	command.Env = append(os.Environ(), "ES_OWNER_PID="+strconv.Itoa(os.Getpid()), "ES_PASSWORD="+password)
	var log bytes.Buffer
	command.Stderr = &log
	url, err := command.Output()
	if err != nil {
		s.err = fmt.Errorf("starting the Elasticsearch fixture: %w\n%s", err, log.String())
	}
	s.url = strings.TrimSpace(string(url))
	return s
}

// fixtureFolder is tests/elasticsearch of this module.
func fixtureFolder() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(folder, "tests", "elasticsearch"), nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("tests/elasticsearch: no go.mod above the working directory")
		}
		folder = parent
	}
}

// StopServers stops what this test process has started. Call it in TestMain, after the tests.
func StopServers() {
	serversMu.Lock()
	defer serversMu.Unlock()
	for password, s := range servers {
		if s.dataDir != "" {
			_ = exec.Command("bash", filepath.Join(s.folder, "stop.sh"), s.dataDir).Run() // it ends with this process anyway
			_ = os.RemoveAll(s.dataDir)
		}
		delete(servers, password)
	}
}
