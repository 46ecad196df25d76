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
	elastictest.Server
	err error
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
	s := servers[password]
	if s == nil {
		s = &server{Server: elastictest.Server{Password: password}}
		s.err = s.Start(context.Background())
		servers[password] = s
	}
	switch {
	case s.err == nil:
		return s.URL
	case os.Getenv("CI") != "" || !errors.Is(s.err, elastictest.ErrNoTools):
		t.Fatal(s.err)
	}
	t.Skip(s.err)
	return ""
}

// StopServers stops what this test process has started. Call it in TestMain, after the tests.
func StopServers() {
	serversMu.Lock()
	defer serversMu.Unlock()
	for _, s := range servers {
		s.Stop()
	}
	clear(servers)
}
