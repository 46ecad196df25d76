package reliability

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
)

// ceph is a running tests/ceph.
type ceph struct {
	dir, endpoint, access, secret string
}

// startCeph starts it; it ends with the test.
func startCeph(t *testing.T) *ceph {
	t.Helper()
	root, err := checkout.Root()
	require.NoError(t, err)
	c := &ceph{dir: t.TempDir()}
	stop := exec.Command("bash", filepath.Join(root, "tests/ceph/stop.sh"), c.dir)
	t.Cleanup(func() { _ = stop.Run() })
	var log bytes.Buffer
	start := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "tests/ceph/start.sh"), c.dir)
	start.Stderr = &log
	out, err := start.Output()
	require.NoError(t, err, log.String())
	fields := strings.Fields(string(out)) // endpoint URL keys ACCESS SECRET
	require.Len(t, fields, 5, string(out))
	c.endpoint, c.access, c.secret = fields[1], fields[3], fields[4]
	return c
}

// kill ends one of its processes at once.
func (c *ceph) kill(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name+".pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// startGateway starts the gateway again, on its port.
func (c *ceph) startGateway(t *testing.T) {
	t.Helper()
	gateway := exec.Command("radosgw", "-n", "client.rgw", "-f")
	gateway.Env = append(os.Environ(), "CEPH_CONF="+filepath.Join(c.dir, "ceph.conf"))
	require.NoError(t, gateway.Start())
	t.Cleanup(func() {
		_ = gateway.Process.Kill()
		_ = gateway.Wait()
	})
}

// bucket makes a bucket.
func (c *ceph) bucket(t *testing.T) bucket.Options {
	t.Helper()
	o := bucket.Options{URL: "s3://pool", Endpoint: c.endpoint, PathStyle: true, AccessKey: c.access, SecretKey: c.secret}
	client, err := minio.New(strings.TrimPrefix(c.endpoint, "http://"), &minio.Options{Region: "us-east-1",
		Creds: credentials.NewStaticV4(c.access, c.secret, ""), BucketLookup: minio.BucketLookupPath})
	require.NoError(t, err)
	require.NoError(t, client.MakeBucket(t.Context(), "pool", minio.MakeBucketOptions{}))
	return o
}

// buildersRace has eight put one segment at once: exactly one does. Then eight build all finished days at once.
func buildersRace(t *testing.T, b *bucket.Bucket, c *ceph, o bucket.Options) {
	t.Helper()
	const builders = 8
	var won atomic.Int64
	var wait sync.WaitGroup
	for n := range builders {
		wait.Go(func() {
			_, err := b.Put(t.Context(), "segments/raced", bytes.Repeat([]byte{byte(n)}, 100_000), bucket.Absent)
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, bucket.ErrPrecondition) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 1, won.Load(), "exactly one wins")
	require.NoError(t, b.Delete(t.Context(), "segments/raced"))

	instance := settings(t, map[string]any{"snapshotBucket": o.URL, "segmentBucket": o.URL, "bucketEndpoint": o.Endpoint,
		"bucketPathStyle": true})
	instance.DecryptedSecureJSONData = map[string]string{"bucketAccessKey": c.access, "bucketSecretKey": c.secret}
	end := small().End
	var days atomic.Int64
	for range builders {
		wait.Go(func() {
			d := plugin.Open(instance, func() time.Time { return end })
			defer d.Dispose()
			err := d.Build(t.Context(), time.Unix(0, 0), end, false, func(day plugin.BuiltDay) {
				if days.Add(1); day.Err != nil {
					t.Error(day.Err)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	segments, err := b.List(t.Context(), "segments/")
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	require.EqualValues(t, builders*len(segments), days.Load(), "each day is there once")
	figure("Ceph: eight build the same days at once", "one of eight puts of an object wins; %d days, each once",
		len(segments))
}

// With a real Ceph: clients ask fresh data sources all the while one of three OSDs is killed and the gateway is
// restarted. Every answer is right, or an error that names the bucket; in the end all are right.
func TestCeph(t *testing.T) {
	if !*long && os.Getenv("CEPH") == "" {
		t.Skip("with a real Ceph in the long version only, or with CEPH=1")
	}
	c := startCeph(t)
	o := small(func(o *samplepool.Options) { o.Format = "parquet" })
	dir := write(t, o)
	options := c.bucket(t)
	b := buckettest.Open(t, options)
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = b.Put(t.Context(), filepath.Base(file), data, bucket.Absent)
		require.NoError(t, err)
		_, err = b.Put(t.Context(), filepath.Base(file), data, bucket.Absent)
		require.ErrorIs(t, err, bucket.ErrPrecondition, "Ceph keeps what is there")
	}
	putBeside(t, b, dir)
	buildersRace(t, b, c, options)
	const query = `{"queryType": "allocation", "view": "summary"}`
	want := figures(t, ask(t, open(t, o.End, map[string]any{"snapshotDir": dir}), o.Start, o.End, query)[0])
	require.NotEmpty(t, want)
	jsonData := map[string]any{"snapshotBucket": options.URL, "bucketEndpoint": options.Endpoint, "bucketPathStyle": true}
	instance := settings(t, jsonData)
	instance.DecryptedSecureJSONData = map[string]string{"bucketAccessKey": c.access, "bucketSecretKey": c.secret}

	const clients = 20
	var right, refused atomic.Int64
	answer := func(ctx context.Context) {
		d := plugin.Open(instance, func() time.Time { return o.End })
		defer d.Dispose()
		r := askIn(t, ctx, d, o.Start, o.End, query)[0]
		switch {
		case ctx.Err() != nil:
		case r.Error == nil:
			right.Add(1)
			if figures(t, r) != want {
				t.Error("a wrong answer")
			}
		case !strings.Contains(r.Error.Error(), options.URL) || strings.Contains(r.Error.Error(), c.secret),
			r.Status != backend.StatusBadGateway:
			t.Errorf("an error that does not name the bucket: %v", r.Error)
		default:
			refused.Add(1)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range clients {
		wait.Go(func() {
			for ctx.Err() == nil {
				answer(ctx)
			}
		})
	}
	more := func(what string) {
		t.Helper()
		begin := right.Load()
		require.Eventually(t, func() bool { return right.Load() > begin+2*clients }, 3*time.Minute, 100*time.Millisecond,
			what)
	}
	more("before")
	c.kill(t, "osd0")
	more("with two of three OSDs")
	c.kill(t, "rgw")
	c.startGateway(t)
	more("with another gateway")
	stop()
	wait.Wait()
	require.Positive(t, right.Load())
	figure("Ceph: one of three OSDs killed, the gateway restarted, while 20 clients ask",
		"%d answers, all right; %d errors that name the bucket while there was no gateway", right.Load(), refused.Load())
}
