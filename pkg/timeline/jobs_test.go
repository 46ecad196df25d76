package timeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/segcache"
)

// If any byte of a segment's file is changed, or if the file is cut anywhere, the answers stay the same, and the file
// is rebuilt.
func TestDamageAnywhere(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarterly(0, 300)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", cache)
	load(t, tl, rows)
	require.NoError(t, tl.Close())
	files, err := filepath.Glob(filepath.Join(cache, segcache.Folder, "*-2025-09-02.segment"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	random, want, made := rand.New(rand.NewPCG(3, 4)), ask(rows), 0
	// The two lines before it say of which state of the file it was made, as far as that is certain.
	body := func(segment []byte) []byte { return bytes.SplitN(segment, []byte("\n"), 3)[2] }
	check := func(content []byte, what string) {
		require.NoError(t, os.WriteFile(files[0], content, 0o600))
		tl := open(t, dir, "UTC", cache)
		defer tl.Close()
		v := load(t, tl, rows)
		requireEqual(t, want, v)
		if v.Work.Read > 1 { // the current day, and the damaged one
			again, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.Equal(t, body(whole), body(again), what)
			made++
		}
	}
	check(whole, "whole")
	const ranges = 20
	for from := 0; from < len(whole); from += len(whole)/ranges + 1 { // some byte of each range
		at := min(len(whole)-1, from+random.IntN(len(whole)/ranges+1))
		content := append([]byte{}, whole...)
		content[at] ^= byte(1 + random.IntN(255))
		check(content, fmt.Sprint("byte ", at))
		check(whole[:at], fmt.Sprint("cut at ", at))
	}
	require.Greater(t, made, ranges, "most was noticed; what was not is a description that says the same")
}

// Bytes that no checksum guards are a day whose jobs can be read, or damaged.
func TestDecodingOfDamage(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 200)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	random, read := rand.New(rand.NewPCG(5, 6)), 0
	for _, d := range load(t, tl, rows).Days {
		whole := encode(d, tl.names)
		for at := range whole {
			other := append([]byte{}, whole...)
			other[at] ^= byte(1 + random.IntN(255))
			lacking := append(whole[:at:at], whole[min(len(whole), at+1+random.IntN(9)):]...)
			for _, b := range [][]byte{other, whole[:at], lacking} {
				damaged, err := decode(d.Date, b, NewNames())
				if err != nil {
					require.ErrorIs(t, err, errDamaged)
					continue
				}
				require.Len(t, damaged.Jobs(), damaged.Statuses())
				read++
			}
		}
	}
	require.Positive(t, read)
}
