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
	l := NewListing()
	for _, etag := range []string{"", "W/abc", "same"} {
		one := version{bucket.Object{Key: "a", Size: 9, ETag: etag, Modified: at}}
		other, later := one, one
		other.Key = "b"
		later.Modified = at.Add(time.Second)
		require.Equal(t, etag == "same", one.tag() == later.tag(), "an ETag that says so is believed")
		l.replace(map[string]bucket.Object{"a": one.Object, "b": other.Object})
		l.keep(one.id(), []byte("of a"))
		require.Nil(t, l.end(other.id()), etag)
		require.Equal(t, "of a", string(l.end(one.id())))
		require.Nil(t, l.end(later.id()))
	}
	require.Empty(t, version{bucket.Object{ETag: "W/abc"}}.condition())
}
