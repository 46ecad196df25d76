// Package buckettest starts a real S3 server for tests: Versity's gateway over a directory.
package buckettest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

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
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, stop, err := serve(program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

// serve starts a server on a free port, over a directory. It ends with stop, or with this process.
func serve(program, dir string) (s *Server, stop func(), err error) {
	for _, name := range []string{"data", "metadata"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, nil, err
		}
	}
	var failed error
	for range 5 { // another process may take the port first
		address, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		if s, stop, failed = launch(program, dir, address); failed == nil {
			return s, stop, nil
		}
	}
	return nil, nil, failed
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

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
	o, err := s.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Make makes a bucket with an unused name, and returns the options that open it.
func (s *Server) Make(ctx context.Context) (bucket.Options, error) {
	name := strings.ToLower("pool-" + rand.Text())
	client, err := minio.New(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{Region: "us-east-1",
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), BucketLookup: minio.BucketLookupPath,
		Transport: &http.Transport{DisableKeepAlives: true}})
	if err == nil {
		err = client.MakeBucket(ctx, name, minio.MakeBucketOptions{})
	}
	return bucket.Options{URL: "s3://" + name, Endpoint: s.Endpoint, PathStyle: true, AccessKey: AccessKey,
		SecretKey: SecretKey}, err
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}
