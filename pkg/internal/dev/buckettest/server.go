// Package buckettest starts a real S3 server for tests: Versity's gateway over a directory.
package buckettest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"html"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

const gateway = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// The keys of every Server.
const (
	AccessKey = "made-up-access-key"
	SecretKey = "made-up-secret-key"
)

// Server is a running server.
type Server struct {
	Endpoint string
}

// Install builds the server into artifacts/bin of this module if it is not there, and returns its path.
func Install() (string, error) {
	root, err := checkout.Root()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "artifacts", "bin")
	version := gateway[strings.LastIndex(gateway, "@")+1:]
	program := filepath.Join(folder, "versitygw-"+version)
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(folder, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	command := exec.Command("go", "install", gateway)
	command.Dir = building
	command.Env = append(os.Environ(), "GOBIN="+building, "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w\n%s", gateway, err, out)
	}
	built := strings.Replace(filepath.Base(program), "-"+version, "", 1)
	return program, os.Rename(filepath.Join(building, built), program)
}

// Start starts a server, which ends with the test. Where it cannot be built, the test is skipped; it fails where CI is
// set.
func Start(t testing.TB) *Server {
	t.Helper()
	program, err := Install()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"data", "metadata"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	for range 5 { // another process may take the port first
		listener, failed := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, failed)
		require.NoError(t, listener.Close())
		s, stop, failed := launch(program, dir, listener.Addr().String())
		if err = failed; err == nil {
			t.Cleanup(stop)
			return s
		}
	}
	require.NoError(t, err)
	return nil
}

// launch starts a server over a directory. It ends with stop, or with this process.
func launch(program, dir, address string) (s *Server, stop func(), err error) {
	// It ends with this process, however that ends: the shell reads until the pipe is closed.
	command := exec.Command("sh", "-c", `"$@" </dev/null & server=$!; cat >/dev/null; kill -9 $server`, "sh", program,
		"--access", AccessKey, "--secret", SecretKey, "--port", address, "--keep-alive", "--quiet", "--iam-dir", "",
		"posix", "--sidecar", filepath.Join(dir, "metadata"), filepath.Join(dir, "data"))
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	pipe, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = pipe.Close()
		_ = command.Wait() // the shell killed its child, which is the last command
	}
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = connection.Close()
			return &Server{Endpoint: "http://" + address}, stop, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return nil, nil, fmt.Errorf("the S3 server does not start: %s", log.String())
}

// Bucket makes a bucket with an unused name, and returns the options that open it.
func (s *Server) Bucket(t testing.TB) bucket.Options {
	t.Helper()
	name := strings.ToLower("pool-" + rand.Text())
	client, err := minio.New(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{Region: "us-east-1",
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), BucketLookup: minio.BucketLookupPath,
		Transport: &http.Transport{DisableKeepAlives: true}})
	require.NoError(t, err)
	require.NoError(t, client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}))
	return bucket.Options{URL: "s3://" + name, Endpoint: s.Endpoint, PathStyle: true, AccessKey: AccessKey,
		SecretKey: SecretKey}
}

// Open makes a bucket and opens it.
func (s *Server) Open(t testing.TB) *bucket.Bucket {
	t.Helper()
	return Open(t, s.Bucket(t))
}

// Open opens a bucket until the end of the test.
func Open(t testing.TB, o bucket.Options) *bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(o)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// Proxy forwards between a client and a server, and injects faults.
type Proxy struct {
	Endpoint string
	Server   *httptest.Server

	mu    sync.Mutex
	fault Fault
}

// Fault answers a request, or has the server answer it.
type Fault func(w http.ResponseWriter, r *http.Request, server http.Handler)

// NewProxy starts a proxy without faults, over TLS or not. It ends with the test.
func NewProxy(t testing.TB, s *Server, tls bool) *Proxy {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	require.NoError(t, err)
	// The signature of a request is over the host that the client knows.
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	p := &Proxy{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault == nil {
			forward.ServeHTTP(w, r)
			return
		}
		fault(w, r, forward)
	})
	if p.Server = httptest.NewUnstartedServer(handler); tls {
		p.Server.StartTLS()
	} else {
		p.Server.Start()
	}
	t.Cleanup(p.Server.Close)
	p.Endpoint = p.Server.URL
	return p
}

// Set makes requests from now on go wrong; nil ends that.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Times makes the first n requests go wrong that match.
func Times(n int, match func(*http.Request) bool, f Fault) Fault {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		mu.Lock()
		now := n > 0 && match(r)
		if now {
			n--
		}
		mu.Unlock()
		if now {
			f(w, r, server)
			return
		}
		server.ServeHTTP(w, r)
	}
}

// Busy is a server that asks for patience.
func Busy(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>` + SecretKey +
		`</Message></Error>`))
}

// Repeating is a server that answers with a status and with all that it was sent, among it the access key and the
// session token, and with the secret key too, where an S3 server has its code and message and the names of elements.
func Repeating(status int) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		said := SecretKey + " " + AccessKey + " " + fmt.Sprint(r.Header)
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("Location", "http://"+AccessKey+":"+SecretKey+"@127.0.0.1:1/")
		w.WriteHeader(status)
		if status < 300 {
			_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><%s>%s</%[1]s>`, SecretKey, html.EscapeString(said))
			return
		}
		_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>%[1]s</Message><Key>%[1]s</Key>`+
			`<BucketName>%[1]s</BucketName><Resource>%[1]s</Resource><RequestId>%[1]s</RequestId></Error>`,
			html.EscapeString(said))
	}
}

// Garbage is a server that does not speak HTTP, and repeats the request.
func Garbage(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(connection, "%v\r\n\r\n", r.Header)
	_ = connection.Close()
}

// Gone is a server that closes connections without an answer.
func Gone(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// Lost has the server carry out the request, and loses the answer.
func Lost(_ http.ResponseWriter, r *http.Request, server http.Handler) {
	server.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// record has the server answer, and takes over its headers.
func record(w http.ResponseWriter, r *http.Request, server http.Handler) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	return answer
}

// Cut ends a body in the middle.
func Cut(w http.ResponseWriter, r *http.Request, server http.Handler) {
	answer := record(w, r, server)
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	panic(http.ErrAbortHandler)
}

// OtherETag answers with an ETag that no object has.
func OtherETag(w http.ResponseWriter, r *http.Request, server http.Handler) {
	answer := record(w, r, server)
	w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// Any matches all requests.
func Any(*http.Request) bool { return true }
