package objects

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
)

// There are servers whose ETags are missing, weak, or the same for all objects.
func TestVersionsWithPoorETags(t *testing.T) {
	at := time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)
	p := newPlace(nil, nil)
	for _, etag := range []string{"", "W/abc", "same"} {
		one := version{bucket.Object{Key: "gpu_state_2025-10.parquet", Size: 9, ETag: etag, Modified: at}}
		other, later := one, one
		other.Key = "gpu_state_2025-11.parquet"
		later.Modified = at.Add(time.Second)
		require.Equal(t, etag == "same", one.tag() == later.tag(), "an ETag that says so is believed")
		p.ends.Set(one.id(), []byte("of a"))
		_, err := p.take([]bucket.Object{one.Object, other.Object})
		require.NoError(t, err)
		for id, want := range map[string]string{one.id(): "of a", other.id(): "", later.id(): ""} {
			end, _ := p.ends.GetIfPresent(id)
			require.Equal(t, want, string(end), etag)
		}
		_, err = p.take([]bucket.Object{later.Object})
		require.NoError(t, err)
		_, kept := p.ends.GetIfPresent(one.id())
		require.False(t, kept)
	}
	require.Empty(t, version{bucket.Object{ETag: "W/abc"}}.condition())
}
