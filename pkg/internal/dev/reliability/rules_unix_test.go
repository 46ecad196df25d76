//go:build unix

package reliability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Each of the five rules of docs/architecture.md is tried from outside, with the built binaries.

// sharing are the settings of a data source of a directory that shares a cache directory and a bucket with others.
func sharing(t *testing.T, n int, dir, cache string, o bucket.Options) backend.DataSourceInstanceSettings {
	t.Helper()
	s := bucketSource(t, n, o, map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey})
	var jsonData map[string]any
	require.NoError(t, json.Unmarshal(s.JSONData, &jsonData))
	delete(jsonData, "snapshotBucket")
	jsonData["snapshotDir"], jsonData["cacheDir"] = dir, cache
	var err error
	s.JSONData, err = json.Marshal(jsonData)
	require.NoError(t, err)
	return s
}

// requireAsNew compares a process's answers with those of a new one that caches nothing, once it has seen the files as
// they are.
func requireAsNew(t *testing.T, source backend.QueryDataHandler, dir string, from, to time.Time, what string) {
	t.Helper()
	fresh := start(t).Source(saved(t, 99, map[string]any{"snapshotDir": dir}))
	want := ask(t, fresh, from, to, views()...)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got := ask(t, source, from, to, views()...)
		for i, q := range views() {
			require.Equal(c, figures(t, want[i]), figures(t, got[i]), "%s: %s", what, q)
		}
	}, time.Minute, 100*time.Millisecond)
}

const allowBuckets = "GF_PLUGIN_ALLOWED_BUCKETS=*"

// Rule 1: rows are edited again and again while two processes read them and share what they derive. Nothing is kept
// that is not of the rows: afterwards both answer like one without a cache, and so do new ones that use their copies.
func TestEditsWhileProcessesRead(t *testing.T) {
	dir, from, to := twoMonths(t)
	options, cache := buckettest.Start(t).Bucket(t), t.TempDir()
	db := snapshotstest.Open(t, dir, october, snapshotstest.Schema, "busy_timeout = 60000")
	defer db.Close()
	for round := range 3 {
		one := start(t, allowBuckets).Source(sharing(t, 2*round+1, dir, cache, options))
		two := start(t, allowBuckets).Source(sharing(t, 2*round+2, dir, t.TempDir(), options))
		var asking sync.WaitGroup
		for _, source := range []backend.QueryDataHandler{one, two} {
			asking.Go(func() { // the answer may be an error: the rows change each time they are read
				_, _ = source.QueryData(t.Context(), request(from, to, views()...))
			})
		}
		answered := make(chan struct{})
		go func() { asking.Wait(); close(answered) }()
		edits := 0
		for editing := true; editing && edits < 50; edits++ {
			_, err := db.ExecContext(t.Context(), "UPDATE gpu_state SET State = ? WHERE rowid % 7 = ?",
				[]string{"Owner", "Unclaimed"}[rand.IntN(2)], rand.IntN(7))
			require.NoError(t, err)
			select {
			case <-answered:
				editing = false
			default:
			}
		}
		require.Greater(t, edits, 1)
		<-answered
		requireAsNew(t, one, dir, from, to, "one")
		requireAsNew(t, two, dir, from, to, "the other")
		requireAsNew(t, start(t, allowBuckets).Source(sharing(t, 100+round, dir, cache, options)), dir, from, to, "a new one")
	}
}

// Rule 2: copies and objects of an earlier and of a later version of the plugin, in the same cache directory and
// bucket, are neither read nor changed nor removed, and one under a wrong name is not believed.
func TestTwoVersionsShareACacheAndABucket(t *testing.T) {
	dir, from, to := twoMonths(t)
	server := buckettest.Start(t)
	options, cache := server.Bucket(t), t.TempDir()
	proxy := buckettest.NewProxy(t, server, false)
	options.Endpoint = proxy.Endpoint
	b := buckettest.Open(t, options)
	requireAsNew(t, start(t, allowBuckets).Source(sharing(t, 1, dir, cache, options)), dir, from, to, "first")

	version := regexp.MustCompile(`([-/]v?)(\d+)([-/]\d{4}-)`) // of a copy's name, of an object's key
	others := func(name string, content []byte) map[string][]byte {
		parts := version.FindStringSubmatch(name)
		require.NotNil(t, parts, name)
		n, err := strconv.Atoi(parts[2])
		require.NoError(t, err)
		all := map[string][]byte{}
		for _, other := range []int{n - 1, n + 1} {
			magic := []byte(fmt.Sprintf(" %d\n", n))
			require.Contains(t, string(content), string(magic))
			all[version.ReplaceAllString(name, fmt.Sprintf("${1}%d${3}", other))] =
				bytes.Replace(content, magic, []byte(fmt.Sprintf(" %d\n", other)), 1)
		}
		return all
	}
	folder, old := filepath.Join(cache, "gpureports-segments"), time.Now().Add(-time.Hour).Truncate(time.Second)
	copies, objects := map[string][]byte{}, map[string][]byte{}
	names := cacheFiles(t, cache)
	require.Greater(t, len(names), 3)
	for i, name := range names {
		content, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.NoError(t, os.Remove(filepath.Join(folder, name)))
		for other, text := range others(name, content) {
			copies[other] = text
			if i%2 == 0 { // an earlier version under the name of this one
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
			}
		}
	}
	for name, content := range copies {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
		require.NoError(t, os.Chtimes(filepath.Join(folder, name), old, old))
	}
	listed, err := b.List(t.Context(), "made/")
	require.NoError(t, err)
	require.Greater(t, len(listed), 3)
	for _, object := range listed {
		content, _, err := b.Get(t.Context(), object.Key)
		require.NoError(t, err)
		require.NoError(t, b.Delete(t.Context(), object.Key))
		for key, text := range others(object.Key, content) {
			objects[key] = text
			_, err := b.Put(t.Context(), key, text, bucket.Absent)
			require.NoError(t, err)
		}
	}
	var asked sync.Map
	proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
		for key := range objects {
			if strings.HasSuffix(r.URL.Path, key) {
				asked.Store(r.Method, key)
			}
		}
		s.ServeHTTP(w, r)
	})
	requireAsNew(t, start(t, allowBuckets).Source(sharing(t, 2, dir, cache, options)), dir, from, to, "beside others")
	proxy.Set(nil)
	asked.Range(func(method, key any) bool { t.Errorf("%v %v of another version", method, key); return true })
	for name, content := range copies {
		now, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, content, now, name)
		info, err := os.Stat(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, old, info.ModTime().Truncate(time.Second), "a reader marks what it uses")
	}
	for key, content := range objects {
		now, _, err := b.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, content, now, key)
	}
	now, err := b.List(t.Context(), "made/")
	require.NoError(t, err)
	require.Len(t, now, len(listed)+len(objects), "its own are there again")
}

// tool is the command-line tool, built once.
var tool = sync.OnceValues(func() (string, error) {
	root, err := checkout.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "gpureports")
	command := exec.Command("go", "build", "-o", path, "./pkg/cmd/gpureports")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// Rule 3: three processes convert one month into one file, and one of them is killed at some moment. The file is whole
// or absent, at most one of them reports that it made it, and what the killed one left disturbs neither readers nor the
// next writer.
func TestKilledWriters(t *testing.T) {
	dir, from, to := twoMonths(t)
	path, err := tool()
	require.NoError(t, err)
	out := copyDir(t, dir)
	month, made := filepath.Join(dir, october), filepath.Join(out, strings.Replace(october, ".db", ".parquet", 1))
	convert := func() *exec.Cmd { return exec.Command(path, "convert", month, "--output", out) }
	begin := time.Now()
	text, err := convert().CombinedOutput()
	require.NoError(t, err, "%s", text)
	took := time.Since(begin)
	want, err := os.ReadFile(made)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(out, october)))
	killed := 0
	for range 12 {
		require.NoError(t, os.Remove(made))
		commands := []*exec.Cmd{convert(), convert(), convert()}
		for _, c := range commands {
			require.NoError(t, c.Start())
		}
		killer := time.AfterFunc(rand.N(took), func() { _ = commands[0].Process.Kill() })
		succeeded := 0
		for i, c := range commands {
			switch err := c.Wait(); {
			case err == nil:
				succeeded++
			case i == 0 && c.ProcessState.ExitCode() < 0:
				killed++
			}
		}
		killer.Stop()
		require.LessOrEqual(t, succeeded, 1)
		now, err := os.ReadFile(made)
		require.NoError(t, err, "two of them were not killed")
		require.Equal(t, want, now)
	}
	require.NotZero(t, killed)
	requireAsNew(t, start(t).Source(saved(t, 1, map[string]any{"snapshotDir": out})), dir, from, to, "converted")
}

// Rule 4: pipes in the place of files, a file of a few hundred KB whose rows take more than a data source has, and a
// bucket that never answers: a process answers with the readable files, names the others, and stays small.
func TestHostileSurroundings(t *testing.T) {
	dir, from, to := twoMonths(t)
	server := buckettest.Start(t)
	options := server.Bucket(t)
	proxy := buckettest.NewProxy(t, server, false)
	options.Endpoint = proxy.Endpoint
	proxy.Set(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // until then the end of the connection does not show
		<-r.Context().Done()
	})
	process := start(t, allowBuckets)
	source := process.Source(sharing(t, 1, dir, t.TempDir(), options))
	requireAsNew(t, source, dir, from, to, "a bucket that never answers")
	proxy.Set(nil)

	for _, name := range []string{"gpu_state_2025-08.db", "gpu_state_2025-11.parquet", "job_pressure_2025-09.db",
		"job_pressure_2025-10.parquet"} {
		pipe(t, filepath.Join(dir, name))
	}
	writeBomb(t, filepath.Join(dir, "gpu_state_2025-10.parquet"), "2025-10-02 12:00:00.000000")
	var said strings.Builder
	for _, query := range views() {
		answer := ask(t, source, from, to, query)[0]
		said.WriteString(notices(answer))
		if answer.Error != nil {
			said.WriteString(answer.Error.Error())
		}
	}
	for _, text := range []string{"is too large for a file of", "gpu_state_2025-08.db", "gpu_state_2025-11.parquet",
		"job_pressure_2025-09.db"} {
		require.Contains(t, said.String(), text)
	}
	require.Less(t, measure(t, process).residentMB, 1000.0)
	for _, name := range []string{"gpu_state_2025-10.parquet", "job_pressure_2025-09.db", "job_pressure_2025-10.parquet"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	requireAsNew(t, source, dir, from, to, "pipes of other months only")
}

// writeBomb writes a month of Parquet with long distinct texts, which compress well.
func writeBomb(t *testing.T, path, timestamp string) {
	t.Helper()
	out, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewWriter(out, parquet.Schema)
	for n := range 120_000 {
		row := make([]any, len(parquet.Schema))
		for i, f := range parquet.Schema {
			switch f.Name {
			case "Name":
				row[i] = strings.Repeat("x", 900) + strconv.Itoa(n)
			case "State", "Machine", "AssignedGPUs":
				row[i] = "Unclaimed"
			case "timestamp":
				row[i] = timestamp
			}
		}
		require.NoError(t, w.Write(row))
	}
	require.NoError(t, w.Close())
	info, err := out.Stat()
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(4<<20))
	require.NoError(t, out.Close())
}

// Rule 5: rows are appended late, older than those before them. A process that saw them come, one that starts after it
// with its cache, and one without count them alike.
func TestRowsAppendedLate(t *testing.T) {
	dir, from, to := twoMonths(t)
	cache := t.TempDir()
	early := start(t).Source(saved(t, 1, map[string]any{"snapshotDir": dir, "cacheDir": cache}))
	const query = `{"queryType": "allocation", "view": "summary"}`
	before := figures(t, ask(t, early, from, to, query)[0])
	db := snapshotstest.Open(t, dir, october, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, shot(to.Add(-40*time.Hour-7*time.Minute), 5)...)
	require.NoError(t, db.Close())
	for name, source := range map[string]backend.QueryDataHandler{
		"early": early, "late": start(t).Source(saved(t, 2, map[string]any{"snapshotDir": dir, "cacheDir": cache})),
		"without a cache": start(t).Source(saved(t, 3, map[string]any{"snapshotDir": dir})),
	} {
		requireAsNew(t, source, dir, from, to, name)
		require.NotEqual(t, before, figures(t, ask(t, source, from, to, query)[0]), name)
	}
}
