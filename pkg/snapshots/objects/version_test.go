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
	l := newListing()
	for _, etag := range []string{"", "W/abc", "same"} {
		one := version{bucket.Object{Key: "a", Size: 9, ETag: etag, Modified: at}}
		other, later := one, one
		other.Key = "b"
		later.Modified = at.Add(time.Second)
		require.Equal(t, etag == "same", one.tag() == later.tag(), "an ETag that says so is believed")
		l.ends.Set(one.id(), []byte("of a"))
		l.replace(map[string]bucket.Object{"a": one.Object, "b": other.Object})
		for id, want := range map[string]string{one.id(): "of a", other.id(): "", later.id(): ""} {
			end, _ := l.ends.GetIfPresent(id)
			require.Equal(t, want, string(end), etag)
		}
		l.replace(map[string]bucket.Object{"a": later.Object})
		_, kept := l.ends.GetIfPresent(one.id())
		require.False(t, kept)
	}
	require.Empty(t, version{bucket.Object{ETag: "W/abc"}}.condition())
}
