package parquet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// everything reads all rows of a file as Writer.Write takes them.
func everything(t testing.TB, data []byte, fields []Field) (rows [][]any) {
	t.Helper()
	rows, err := tryEverything(t, data, fields)
	require.NoError(t, err)
	return rows
}

func tryEverything(t testing.TB, data []byte, fields []Field) (rows [][]any, err error) {
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	err = f.EachRow(t.Context(), 0, fields, func(row []any) error {
		rows = append(rows, append([]any{}, row...))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Files that polars and pyarrow wrote: columns in any order, of which some are missing or all NULL and of another type,
// microseconds and nanoseconds, pages of both versions, with a dictionary and without, one that the footer does not
// mention.
func TestFilesOfOtherWriters(t *testing.T) {
	text, err := os.ReadFile("testdata/rows.json")
	require.NoError(t, err)
	var want []map[string]any
	require.NoError(t, json.Unmarshal(text, &want))
	for _, name := range []string{"polars.parquet", "arrow-nanos-v2.parquet", "arrow-pages.parquet"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			rows := everything(t, data, Schema)
			require.Len(t, rows, len(want))
			for i, row := range rows {
				for j, field := range Schema {
					expected := want[i][field.Name]
					if v, ok := expected.(float64); ok && field.Kind == Integer {
						expected = int64(v)
					}
					require.Equal(t, expected, row[j], "row %d, %s", i, field.Name)
				}
			}
			f, err := Open(bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			fields, err := f.Fields()
			require.NoError(t, err)
			require.Contains(t, fields, Field{"RemoteOwner", Text})
			require.Contains(t, fields, Field{"timestamp", Moment})
		})
	}
}

type drawnRow struct {
	Name   *string  `parquet:"Name,optional"`
	State  string   `parquet:"State"`
	Memory *int64   `parquet:"GPUs_GlobalMemoryMb,optional"`
	Usage  *float64 `parquet:"GPUsAverageUsage,optional"`
	Time   *int64   `parquet:"timestamp,optional,timestamp(microsecond:local)"`
}

var drawnFields = []Field{
	{"Name", Text}, {"State", Text}, {"GPUs_GlobalMemoryMb", Integer}, {"GPUsAverageUsage", Real}, {"timestamp", Moment},
}

func optional[T any](g *rapid.Generator[T]) *rapid.Generator[*T] { return rapid.Ptr(g, true) }

// Random files of the library's own writer are read as they were written.
func TestRandomFiles(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		some := rapid.SampledFrom([]string{"", "Claimed", "Unclaimed", "x\x00y", "ünï"})
		texts := rapid.OneOf(some, rapid.StringN(0, 40, 300))
		codecs := []compress.Codec{
			&parquet.Zstd, &parquet.Snappy, &parquet.Uncompressed, &parquet.Gzip, &parquet.Brotli, &parquet.Lz4Raw,
		}
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawnRow {
			return drawnRow{
				Name: optional(texts).Draw(t, "name"), State: texts.Draw(t, "state"),
				Memory: optional(rapid.Int64()).Draw(t, "memory"),
				Usage:  optional(rapid.Float64()).Draw(t, "usage"), Time: optional(rapid.Int64Range(-1<<40, 1<<52)).Draw(t, "time"),
			}
		}), 0, 300).Draw(t, "rows")
		options := []parquet.WriterOption{
			parquet.DataPageVersion(rapid.IntRange(1, 2).Draw(t, "version")),
			parquet.PageBufferSize(rapid.SampledFrom([]int{64, 1000, 1 << 20}).Draw(t, "page")),
			parquet.MaxRowsPerRowGroup(rapid.Int64Range(1, 400).Draw(t, "group")),
			parquet.Compression(rapid.SampledFrom(codecs).Draw(t, "codec")),
		}
		encodings := []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary}
		options = append(options, parquet.DefaultEncoding(rapid.SampledFrom(encodings).Draw(t, "encoding")))
		var out bytes.Buffer
		w := parquet.NewGenericWriter[drawnRow](&out, options...)
		_, err := w.Write(rows)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		got := everything(tt, out.Bytes(), drawnFields)
		require.Len(t, got, len(rows))
		for i, r := range rows {
			want := []any{nil, r.State, nil, nil, nil}
			if r.Name != nil {
				want[0] = *r.Name
			}
			if r.Memory != nil {
				want[2] = *r.Memory
			}
			if r.Usage != nil {
				want[3] = *r.Usage
			}
			if r.Time != nil {
				want[4] = micros.time(*r.Time).Format("2006-01-02 15:04:05.000000")
			}
			require.Equal(t, want, got[i])
		}
	})
}

// Row groups have the same key at any position, and another one as soon as anything of them differs.
func TestKeys(t *testing.T) {
	write := func(values ...string) *File {
		var out bytes.Buffer
		w := NewWriter(&out, []Field{{"Name", Text}})
		for _, v := range values {
			require.NoError(t, w.Write([]any{v}))
			require.NoError(t, w.Flush())
		}
		require.NoError(t, w.Close())
		f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		require.NoError(t, err)
		return f
	}
	f, g := write("a", "b", "a"), write("long text", "b")
	require.Equal(t, f.Groups[0].Key, f.Groups[2].Key)
	require.Equal(t, f.Groups[1].Key, g.Groups[1].Key)
	require.NotEqual(t, f.Groups[0].Key, f.Groups[1].Key)
	var out bytes.Buffer
	w := NewWriter(&out, []Field{{"name", Text}})
	require.NoError(t, w.Write([]any{"a"}))
	require.NoError(t, w.Close())
	h, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	require.NotEqual(t, f.Groups[0].Key, h.Groups[0].Key)
}

// Lists of texts are read as texts, in each form in which writers store them, for any range of rows.
func TestLists(t *testing.T) {
	type listRow struct {
		Lists    []string `parquet:"Lists,optional,list"`
		Words    []string `parquet:"Words,list,dict"`
		Repeated []string `parquet:"Repeated"`
		Name     string   `parquet:"Name"`
	}
	random := rand.New(rand.NewPCG(5, 6))
	rows, want := make([]listRow, 3000), make([]string, 3000)
	for i := range rows {
		var members []string
		for range random.IntN(4) {
			members = append(members, fmt.Sprint("GPU-", random.IntN(50)))
		}
		rows[i], want[i] = listRow{members, members, members, fmt.Sprint(i)}, strings.Join(members, ",")
	}
	for version := 1; version <= 2; version++ {
		var out bytes.Buffer
		w := parquet.NewGenericWriter[listRow](&out, parquet.DataPageVersion(version), parquet.PageBufferSize(700),
			parquet.MaxRowsPerRowGroup(1100), parquet.Compression(&parquet.Zstd))
		_, err := w.Write(rows)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		require.NoError(t, err)
		require.Len(t, f.Groups, 3)
		_, err = f.Fields() // it can be written again
		require.NoError(t, err)
		for g, begin := range []int{0, 1100, 2200} {
			for _, part := range [][2]int{{0, f.Groups[g].Rows}, {0, 1}, {7, 8}, {500, 702}, {f.Groups[g].Rows - 1,
				f.Groups[g].Rows}} {
				texts, err := f.columns(t.Context(), g, part[0], part[1], []string{"Name", "Lists", "Words", "Repeated"})
				require.NoError(t, err)
				for i := range part[1] - part[0] {
					n := begin + part[0] + i
					require.Equal(t, fmt.Sprint(n), texts[0].At(i))
					for _, lists := range texts[1:] {
						require.Equal(t, want[n], lists.At(i), "version %d, row %d", version, n)
					}
				}
			}
		}
		damaged := bytes.Clone(out.Bytes())
		for i := 100; i < len(damaged)/2; i += 97 {
			damaged[i] ^= 0x5a
		}
		if f, err := Open(bytes.NewReader(damaged), int64(len(damaged))); err == nil {
			_, err = f.columns(t.Context(), 0, 0, 1100, []string{"Lists", "Words", "Repeated"})
			require.Error(t, err)
		}
	}
}

// A file that is not a complete Parquet file is an error that says so.
func TestDamage(t *testing.T) {
	data, err := os.ReadFile("testdata/polars.parquet")
	require.NoError(t, err)
	withFooter := func(length uint32) []byte {
		b := bytes.Clone(data)
		binary.LittleEndian.PutUint32(b[len(b)-8:], length)
		return b
	}
	zoned := func() []byte {
		var out bytes.Buffer
		w := parquet.NewGenericWriter[struct {
			T int64 `parquet:"timestamp,timestamp(microsecond:utc)"`
		}](&out)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	f, err := Open(bytes.NewReader(zoned()), int64(len(zoned())))
	require.NoError(t, err)
	require.True(t, f.Column("timestamp").zoned)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":       {nil, "0 bytes"},
		"no parquet":  {[]byte("SQLite format 3\x00 and so on"), "it is not a Parquet file"},
		"truncated":   {data[:len(data)/2], "footer is missing"},
		"encrypted":   {slices.Concat([]byte("PARE"), data[4:len(data)-4], []byte("PARE")), "encrypted"},
		"huge footer": {withFooter(math.MaxUint32), "a footer of 4294967295 bytes"},
		"no footer":   {withFooter(0), "footer"},
		"lost bytes":  {append([]byte("PAR1"), data[3000:]...), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryEverything(t, c.data, Schema)
			require.ErrorContains(t, err, c.want)
		})
	}
	// A page that is overwritten: an error, or values that differ; nothing other than these.
	errors := 0
	for at := 4; at < len(data)-1500; at += 7 {
		broken := bytes.Clone(data)
		for i := range min(20, len(data)-at) {
			broken[at+i] ^= byte(0x55 + i)
		}
		if _, err := tryEverything(t, broken, Schema); err != nil {
			errors++
		}
	}
	require.Greater(t, errors, 100)
}

// A footer that promises more than the file has is an error before anything is allocated for it.
func TestAbsurdFooters(t *testing.T) {
	list := func(size uint64) []byte { // field 2 of the footer, a list of structures
		b := []byte{0x15, 0x02, 0x19, 0xfc}
		return binary.AppendUvarint(b, size)
	}
	for _, size := range []uint64{100, 1 << 20, math.MaxInt32, math.MaxUint32, 1 << 60} {
		footer := list(size)
		data := append([]byte(magic), footer...)
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(footer))), magic...)
		n := testing.AllocsPerRun(1, func() {
			_, err := Open(bytes.NewReader(data), int64(len(data)))
			require.ErrorIs(t, err, errDamaged)
		})
		require.Less(t, n, 1000.0)
	}
}

// FuzzOpen reads any bytes: the result is an error, or pages that claim no more than a file of this size can have. The
// pages themselves are decoded by the library.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"polars.parquet", "arrow-nanos-v2.parquet", "arrow-pages.parquet"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for g := range file.Groups {
			for i := range file.Groups[g].chunks {
				chunk := &file.Groups[g].chunks[i]
				if chunk.check(file.size) != nil {
					continue
				}
				wanted, first, err := pagesOf(chunk, data[chunk.at:chunk.end], file.size, 0, file.Groups[g].Rows)
				if err == nil {
					require.LessOrEqual(t, len(wanted), len(data))
					require.Zero(t, first)
				}
			}
		}
	})
}
