package fresh

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Questions that were asked before a look began share it; a later one looks again, and so does one that nobody asked.
func TestLooksAreSharedBackwardsOnly(t *testing.T) {
	var seen Seen[int]
	looks := 0
	look := func(ctx context.Context) int {
		found, err := seen.Look(ctx, func() (int, error) { looks++; return looks, nil })
		require.NoError(t, err)
		return found
	}
	before := time.Now().Add(-time.Second)
	first, second := Asked(t.Context(), before), Asked(t.Context(), before.Add(time.Millisecond))
	require.Equal(t, 1, look(first))
	require.Equal(t, 1, look(second), "asked before the look")
	require.Equal(t, 1, look(first), "asks twice")
	require.Equal(t, 2, look(Asked(t.Context(), time.Now().Add(time.Hour))), "asked after the look")
	require.Equal(t, 2, look(first), "the newest look serves it as well")
	require.Equal(t, 3, look(t.Context()), "no question")
}

// A look that fails serves nobody, and leaves what was found before to those whom it serves.
func TestFailedLook(t *testing.T) {
	var seen Seen[string]
	wrong := errors.New("the directory is away")
	ctx := Asked(t.Context(), time.Now().Add(-time.Second))
	_, err := seen.Look(ctx, func() (string, error) { return "", wrong })
	require.ErrorIs(t, err, wrong)
	found, err := seen.Look(ctx, func() (string, error) { return "there", nil })
	require.NoError(t, err)
	require.Equal(t, "there", found)
	_, err = seen.Look(t.Context(), func() (string, error) { return "", wrong })
	require.ErrorIs(t, err, wrong)
	found, err = seen.Look(ctx, func() (string, error) { return "", wrong })
	require.NoError(t, err)
	require.Equal(t, "there", found)
}
