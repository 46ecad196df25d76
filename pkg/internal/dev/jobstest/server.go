package jobstest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
)

// Servers of this test process, by password.
var (
	serversMu sync.Mutex
	servers   = map[string]*server{}
)

type server struct {
	url  string
	stop func()
	err  error
}

// Password is the password of the user admin of [SecuredElasticsearch].
const Password = "made-up-for-tests"

// Elasticsearch returns the URL of a real Elasticsearch: ELASTICSEARCH_URL if set, otherwise the fixture of
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
	if os.Getenv("CI") != "" || !errors.Is(s.err, elastictest.ErrNoTools) {
		t.Fatal(s.err)
	}
	t.Skip(s.err)
	return ""
}

func start(password string) *server {
	s := &server{}
	s.url, s.stop, s.err = elastictest.Launch(context.Background(), password)
	return s
}

// StopServers stops what this test process has started. Call it in TestMain, after the tests.
func StopServers() {
	serversMu.Lock()
	defer serversMu.Unlock()
	for password, s := range servers {
		if s.err == nil {
			s.stop()
		}
		delete(servers, password)
	}
}
