package jobs

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/segcache"
)

// Bytes is the estimated size of the cached entries.
func (c *Cache) Bytes() uint64 { return c.entries.WeightedSize() }

// fill gives every field of an ad a value that is not zero: a field that the disk forgets is noticed.
func fill(t *testing.T, random *rand.Rand) (ad Ad) {
	t.Helper()
	fields := reflect.ValueOf(&ad).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Interface().(type) {
		case Kind:
			f.Set(reflect.ValueOf(Epoch))
		case string:
			f.SetString(fields.Type().Field(i).Name + string(rune('a'+random.IntN(3))))
		case []string:
			f.Set(reflect.ValueOf([]string{"GPU-1", "", "GPU-2"}))
		case Date:
			f.SetInt(random.Int64N(1<<33) - 1<<20)
		case float64:
			f.SetFloat([]float64{1, 3600, 0.1, -2.5, math.MaxFloat64}[random.IntN(5)])
		case int:
			f.SetInt(random.Int64N(1<<40) - 1<<39)
		case bool:
			f.SetBool(true)
		default:
			t.Fatalf("field %s: fill has to know its type", fields.Type().Field(i).Name)
		}
		require.False(t, fields.Field(i).IsZero(), fields.Type().Field(i).Name)
	}
	return ad
}

func TestEntriesComeBackAsTheyWere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	said := []string{"3 values could not be read"}
	entries := map[string]entry{
		"none":     {Asked: time.Unix(1_700_000_000, 123)},
		"":         {Asked: time.Unix(0, 1), Ads: []Ad{{}}},
		"several":  {Asked: time.Unix(1_700_000_001, 0), Ads: []Ad{fill(t, random), {}, fill(t, random)}, Notices: said},
		"m\x00123": {Asked: time.Unix(1_700_000_002, 0), Ads: []Ad{fill(t, random)}, Notices: said},
	}
	source := &cached{cache: NewCache(1, time.Now)}
	written, read := encode(entries), map[string]entry{}
	require.NoError(t, source.decode(written, read))
	require.Equal(t, entries, read)
	for i := range written { // no prefix is taken for all of it, and none makes it fail otherwise
		none := map[string]entry{}
		require.ErrorIs(t, source.decode(written[:i], none), segcache.ErrDamaged, i)
		require.Empty(t, none)
	}
	for range 2000 { // any bytes
		damaged := append([]byte(nil), written...)
		damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		_ = source.decode(damaged, map[string]entry{})
	}
}
