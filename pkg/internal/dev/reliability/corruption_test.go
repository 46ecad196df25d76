package reliability

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/snapshots/sqlite"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// plainAnswers computes two tables from the rows that plain SQL reads, with nothing cached.
func plainAnswers(t *testing.T, dir string, from, to time.Time, queries ...string) (answers []backend.DataResponse) {
	t.Helper()
	files, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: months.New(files, localtime.UTC, sqlite.Format), MaxBytes: 1 << 30})
	s := stores.New(tl, stores.Divide(1<<30))
	defer s.Close()
	lists, err := files.Lists(snapshots.ListFiles{})
	require.NoError(t, err)
	for _, q := range queries {
		model, err := query.Parse([]byte(q))
		require.NoError(t, err)
		frames, err := kinds.Answer(t.Context(), s, query.Env{Zone: localtime.UTC, SliceMinutes: 15, Lists: lists},
			query.Request{Model: model, Window: pool.NewWindow(from, to), IntervalMs: 60_000,
				Now: to.UnixMicro()})
		answers = append(answers, backend.DataResponse{Frames: frames, Error: err})
	}
	return answers
}

// damage changes bytes of a file as a failing disk or a careless copy does.
func damage(random *rand.Rand, content []byte) (what string) {
	at := random.IntN(len(content))
	if random.IntN(3) == 0 {
		at = random.IntN(len(content)/4096) * 4096 // the beginning of a page, where its structure is
		at += random.IntN(64)
	}
	switch kind := random.IntN(4); kind {
	case 0:
		content[at] ^= 1 << random.IntN(8)
		return fmt.Sprintf("a bit at %d", at)
	case 1:
		n := 1 + random.IntN(16)
		for i := at; i < min(at+n, len(content)); i++ {
			content[i] = byte(random.Uint32())
		}
		return fmt.Sprintf("%d bytes at %d", n, at)
	case 2:
		at = at / 512 * 512
		clear(content[at:min(at+512, len(content))])
		return fmt.Sprintf("a sector of zeros at %d", at)
	default:
		from := random.IntN(len(content)/4096) * 4096
		at = at / 4096 * 4096
		copy(content[at:min(at+4096, len(content))], content[from:])
		return fmt.Sprintf("the page at %d in place of the one at %d", from, at)
	}
}

func leavesDaysOut(answer backend.DataResponse) bool {
	text := notices(answer)
	return strings.Contains(text, "day is left out") || strings.Contains(text, "days are left out")
}

// Of a damaged file the answer is what SQLite itself reads of it, or an error that names the file, or the answer of the
// days that can be read with a notice that names the file and those that cannot. Nothing crashes or hangs.
func TestDamagedFiles(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.End = o.Start.AddDate(0, 0, 2) })
	whole := write(t, o)
	const name = "gpu_state_2025-10.db"
	content, err := os.ReadFile(filepath.Join(whole, name))
	require.NoError(t, err)
	queries := []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`,
		`{"queryType": "allocation", "view": "stateTimeline", "limit": 500}`}
	undamaged := ask(t, open(t, o.End, map[string]any{"snapshotDir": whole}), o.Start, o.End, queries...)
	rounds, random := 50, rand.New(rand.NewPCG(1, 9))
	if *long {
		rounds = 1000
	}
	same, equal, told, left := 0, 0, 0, 0
	var slowest time.Duration
	for range rounds {
		broken := append([]byte(nil), content...)
		what := damage(random, broken)
		for range random.IntN(3) {
			what += ", " + damage(random, broken)
		}
		dir := copyDir(t, whole)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), broken, 0o600))
		started := time.Now()
		d := open(t, o.End, map[string]any{"snapshotDir": dir, "cacheDir": t.TempDir()})
		got := ask(t, d, o.Start, o.End, queries...)
		health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{
			PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
		require.NoError(t, err)
		require.True(t, json.Valid(health.JSONDetails))
		slowest = max(slowest, time.Since(started))
		d.Dispose()
		want := plainAnswers(t, dir, o.Start, o.End, queries...)
		for i, q := range queries {
			switch {
			case got[i].Error != nil:
				told++
				require.Equal(t, backend.StatusBadGateway, got[i].Status, "%s: %s: %v", what, q, got[i].Error)
				require.ErrorContains(t, got[i].Error, name, "%s: %s", what, q)
			case leavesDaysOut(got[i]):
				left++
				require.Contains(t, notices(got[i]), name+" is damaged or truncated", "%s: %s", what, q)
			case leavesDaysOut(want[i]), want[i].Error != nil: // SQLite fails although the damaged part need not be read
				require.Equal(t, figures(t, undamaged[i]), figures(t, got[i]), "%s: %s: %v", what, q, want[i].Error)
				same++
			default:
				require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%s: %s", what, q)
				if figures(t, undamaged[i]) == figures(t, got[i]) {
					same++
				} else {
					equal++
				}
			}
		}
	}
	require.NotZero(t, told)
	require.NotZero(t, left)
	require.NotZero(t, equal)
	figure("Random damage to a month file", "%d files, %d answers: %d the same as without the damage, %d what plain SQL "+
		"reads of it, %d without the days that a notice names, %d errors that name the file; the slowest file took %d ms",
		rounds, 3*rounds, same, equal, left, told, slowest.Milliseconds())
}
