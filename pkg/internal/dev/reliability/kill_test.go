package reliability

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The plugin is killed again and again while it writes its cache. Whatever it left there, the next one's answers are
// right.
func TestKilledWhileWritingItsCache(t *testing.T) {
	o := small()
	o.Start = o.End.AddDate(0, 0, -12)
	dir, cache := write(t, o), t.TempDir()
	jsonData := map[string]any{"snapshotDir": dir, "cacheDir": cache}
	work := func(round int) (answered <-chan struct{}, kill func()) {
		process := start(t)
		source := process.Source(saved(t, round, jsonData))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = source.QueryData(t.Context(), request(o.Start, o.End, `{"queryType": "allocation"}`)) // the connection breaks
		}()
		return done, func() {
			running, err := os.FindProcess(process.PID())
			require.NoError(t, err)
			require.NoError(t, running.Kill())
			<-done
			process.Close()
		}
	}
	answered, kill := work(0)
	<-answered
	kill()
	written := func() int { return len(files(t, cache, ".segment")) }
	segments := written()
	require.Greater(t, segments, 10)

	rounds, random := 10, rand.New(rand.NewPCG(5, 5))
	if *long {
		rounds = 200
	}
	between, parts := 0, 0
	for round := range rounds {
		for _, name := range files(t, cache, "") { // of the rest nothing, something or all is there
			if random.IntN(4) > 0 {
				require.NoError(t, os.Remove(name))
			}
		}
		before := written()
		answered, kill := work(round + 1)
		for until := before + random.IntN(segments-before+1); written() < until; { // a random moment
			select {
			case <-answered:
				until = 0
			default:
			}
		}
		kill()
		if after := written(); before < after && after < segments {
			between++
		}
		parts += len(files(t, cache, ".part"))
		requireAsFresh(t, open(t, o.End, jsonData), dir, o.Start, o.End, "after a kill")
	}
	require.NotZero(t, between, "no kill met the writing")
	queries := []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`}
	fresh := ask(t, open(t, o.End, map[string]any{"snapshotDir": dir}), o.Start, o.End, queries...)
	for i, plain := range plainAnswers(t, dir, o.Start, o.End, queries...) {
		require.Equal(t, figures(t, plain), figures(t, fresh[i]), "what all were compared with is what plain SQL reads")
	}
	figure("Killed at a random moment", "%d times, %d of them between the first and the last of %d segments that were "+
		"to be written, %d segments half written; every answer afterwards the same as after a fresh start without a "+
		"cache", rounds,
		between, segments, parts)
}
