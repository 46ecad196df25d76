package facts

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts and numbers that a document may hold.
var (
	texts = []string{"", "a", "NVIDIA A100-SXM4-80GB", `say "no"`, `back\slash`, "<b>&", "Jürgen", "\u2028", "tab\t",
		"\x00", "\xff\xfe", "日本", "'"}
	numbers = []float64{0, 1, -1, 0.1, 1.0 / 3, 1e-6, 9.9e-7, 1e-7, 1e-10, 1e20, 1e21, 1e100, 1e-100, math.MaxFloat64,
		math.SmallestNonzeroFloat64, 12345678.901234567, math.Copysign(0, -1)}
)

// made fills a value with texts and numbers by chance; some pointers stay nil.
func made(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			made(r, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			made(r, v.Field(i))
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Float64:
		v.SetFloat(numbers[r.IntN(len(numbers))])
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64N(3) * (r.Int64N(2_000_000_000_000) - 1))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	}
}

// Documents are those of encoding/json, byte by byte: otherwise they would all be written again.
func TestAppendIsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var f Fact
		made(r, reflect.ValueOf(&f).Elem())
		want, err := json.Marshal(&f)
		require.NoError(t, err)
		got, err := f.Append([]byte("before"))
		require.NoError(t, err)
		require.Equal(t, "before"+string(want), string(got))
	}
}

func TestAppendRefusesWhatIsNoNumber(t *testing.T) {
	for _, wrong := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := (&Fact{Waits: &Waits{Waited: wrong}}).Append(nil)
		require.ErrorContains(t, err, "field waited")
	}
}

// Ids stay what they are: documents that are there are found again.
func TestIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2_000 {
		var f Fact
		made(r, reflect.ValueOf(&f).Elem())
		name := fmt.Sprintf("%q %s %d", f.Pool, f.Kind, f.Hour)
		if f.Group != nil {
			name += fmt.Sprintf(" %q", *f.Group)
		}
		if f.User != nil {
			name += fmt.Sprintf(" %q", *f.User)
		}
		if f.Evicted != nil {
			name += fmt.Sprintf(" %q %q %d", f.Cause, f.Evidence, f.Began)
		}
		if f.Request != nil {
			name += fmt.Sprintf(" %q", *f.Request)
		}
		require.Equal(t, hashed([]byte(name)), f.ID())
	}
	const known = "JvzO30Pj-lfVftbOve4dTT-4"
	f := Fact{Pool: "a", Kind: KindHour, Hour: 1_760_000_000_000}
	require.Equal(t, known, f.ID())
}

func BenchmarkDocument(b *testing.B) {
	user := "alice"
	f := Fact{Pool: "CHTC", Kind: KindUsers, Hour: 1_760_000_000_000, Complete: true, User: &user, Project: &user,
		Group: &Group{"Backfill-OpenCapacity", "Backfill", "NVIDIA A100-SXM4-80GB", "80-140 GB", "", "open", "alice"},
		GPUs:  &GPUs{Claimed: 12.25}, Usage: &Usage{Held: 3.0625, Measured: 2.9, Busy: 2.1333, Idle: 0.1, Carried: 3}}
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer, _ = f.Append(buffer[:0])
		_ = f.ID()
	}
}
