package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test start itself as another process, which writes as GPUREPORTS_WRITER says.
func TestMain(m *testing.M) {
	what, path, _ := strings.Cut(os.Getenv("GPUREPORTS_WRITER"), " ")
	if what == "" {
		os.Exit(m.Run())
	}
	if err := write(what, path); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// write is another process's work.
func write(what, path string) error {
	switch what {
	case "append": // a hundred lines, each by a replacement of the file
		for n := range 100 {
			if err := Replace(context.Background(), path, appending(path, fmt.Sprintf("%d:%d\n", os.Getpid(), n))); err != nil {
				return err
			}
		}
	case "create":
		_, err := Create(context.Background(), path, func(out *os.File) error {
			_, err := fmt.Fprintln(out, os.Getpid())
			return err
		})
		if !errors.Is(err, fs.ErrExist) {
			fmt.Println("created")
			return err
		}
	case "hang": // in the middle of a replacement, until it is killed
		return Replace(context.Background(), path, func(out *os.File) error {
			_, err := out.WriteString("half")
			fmt.Println("writing")
			_, _ = io.Copy(io.Discard, os.Stdin)
			return err
		})
	}
	return nil
}

// appending copies the file and adds a line.
func appending(path, line string) func(*os.File) error {
	return func(out *os.File) error {
		there, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err = out.Write(append(there, line...))
		return err
	}
}

// start starts another process; its input stays open until the test ends.
func start(t *testing.T, what, path string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "GPUREPORTS_WRITER="+what+" "+path)
	in, err := c.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	return c, bufio.NewReader(out)
}

// names are the files of a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// Processes that replace one file at the same time lose no line of each other, and a reader finds whole lines only.
func TestProcessesReplaceOneFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "month")
	var processes []*exec.Cmd
	for range 4 {
		c, _ := start(t, "append", path)
		processes = append(processes, c)
	}
	done := make(chan error)
	go func() {
		var failed error
		for _, c := range processes {
			failed = errors.Join(failed, c.Wait())
		}
		done <- failed
	}()
	for ended := false; !ended; {
		select {
		case err := <-done:
			require.NoError(t, err)
			ended = true
		default:
		}
		found, err := os.ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
			require.Equal(t, byte('\n'), found[len(found)-1])
		}
	}
	found, err := os.ReadFile(path)
	require.NoError(t, err)
	next := map[string]int{}
	for line := range strings.Lines(string(found)) {
		process, n, _ := strings.Cut(strings.TrimSpace(line), ":")
		require.Equal(t, strconv.Itoa(next[process]), n, "the lines of a process are in order, and none is missing")
		next[process]++
	}
	require.Len(t, next, 4)
	for process, n := range next {
		require.Equal(t, 100, n, process)
	}
	require.Equal(t, []string{".month.lock", "month"}, names(t, dir))
}

// Of processes that create one file, one does, and the file stays that one's; with and without hard links.
func TestProcessesCreateOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "month")
	var outputs []*bufio.Reader
	var processes []*exec.Cmd
	for range 6 {
		c, out := start(t, "create", path)
		processes, outputs = append(processes, c), append(outputs, out)
	}
	var winners []int
	for i, c := range processes {
		text, err := io.ReadAll(outputs[i])
		require.NoError(t, err)
		require.NoError(t, c.Wait())
		if strings.HasPrefix(string(text), "created") {
			winners = append(winners, c.Process.Pid)
		}
	}
	require.Len(t, winners, 1)
	found, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(winners[0])+"\n", string(found))
}

// A writer that is killed leaves the file as it was, releases its lock, and its temporary file goes after a day.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "month")
	require.NoError(t, Put(path, appending(path, "a\n")))
	c, out := start(t, "hang", path)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "writing\n", line)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Replace(canceled, path, appending(path, "b\n")), context.Canceled, "the other one holds the lock")
	_, err = Lock(filepath.Join(dir, ".month.lock"))
	require.ErrorIs(t, err, ErrLocked)

	require.NoError(t, c.Process.Signal(syscall.SIGKILL))
	require.Error(t, c.Wait())
	require.NoError(t, Replace(t.Context(), path, appending(path, "b\n")))
	found, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a\nb\n", string(found))

	all := names(t, dir)
	require.Len(t, all, 3)
	left := filepath.Join(dir, all[0])
	require.Contains(t, left, ".tmp")
	then := time.Now().Add(-abandoned - time.Hour)
	require.NoError(t, os.Chtimes(left, then, then))
	require.NoError(t, Replace(t.Context(), path, appending(path, "c\n")))
	require.Equal(t, []string{".month.lock", "month"}, names(t, dir))
}

// A file that another program changes while it is replaced is read again, and nothing of it is lost; one that comes
// meanwhile likewise. One that changes each time is an error, and stays.
func TestWriterThatKnowsNoLock(t *testing.T) {
	dir := t.TempDir()
	for _, there := range []string{"", "old\n"} {
		path := filepath.Join(dir, "month"+strconv.Itoa(len(there)))
		if there != "" {
			require.NoError(t, os.WriteFile(path, []byte(there), 0o600))
		}
		calls := 0
		replace := func(foreign int) error {
			return Replace(t.Context(), path, func(out *os.File) error {
				err := appending(path, "ours\n")(out)
				if calls++; calls <= foreign {
					old, _ := os.ReadFile(path)
					err = errors.Join(err, os.WriteFile(path, append(old, "theirs\n"...), 0o600))
				}
				return err
			})
		}
		require.NoError(t, replace(2))
		require.Equal(t, 3, calls)
		found, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, there+"theirs\ntheirs\nours\n", string(found))
		calls = 0
		require.ErrorIs(t, replace(3), errChanged)
		found, err = os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, there+"theirs\ntheirs\nours\ntheirs\ntheirs\ntheirs\n", string(found))
	}
}

// Where a volume has no hard links, a claim keeps others out; one of a killed process names itself.
func TestVolumeWithoutLinks(t *testing.T) {
	hardLink = func(string, string) error { return &os.LinkError{Op: "link", Err: syscall.EOPNOTSUPP} }
	defer func() { hardLink = os.Link }()
	dir := t.TempDir()
	path := filepath.Join(dir, "month")
	create := func(text string) error {
		_, err := Create(t.Context(), path, func(out *os.File) error {
			_, err := out.WriteString(text)
			return err
		})
		return err
	}
	require.NoError(t, create("first"))
	require.ErrorIs(t, create("second"), fs.ErrExist)
	found, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "first", string(found))
	require.Equal(t, []string{"month"}, names(t, dir))
	require.NoError(t, os.Remove(path))
	claim := filepath.Join(dir, ".month.claim")
	require.NoError(t, os.WriteFile(claim, nil, 0o600))
	require.ErrorContains(t, create("third"), "remove "+claim)
	require.NoFileExists(t, path)
}

// A failed write leaves nothing, neither of its file nor of SQLite's next to it, and the file as it was.
func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "month")
	require.NoError(t, Put(path, appending(path, "a\n")))
	broken := errors.New("broken")
	fail := func(out *os.File) error {
		return errors.Join(os.WriteFile(out.Name()+"-journal", nil, 0o600), broken)
	}
	require.ErrorIs(t, Put(path, fail), broken)
	require.ErrorIs(t, Replace(t.Context(), path, fail), broken)
	_, err := Create(t.Context(), path+"2", fail)
	require.ErrorIs(t, err, broken)
	require.Equal(t, []string{".month.lock", "month"}, names(t, dir))
}

// What SQLite left of a file that is gone is set aside and said; that of a file that is there stays.
func TestLogsOfAFileThatIsGone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "month.db")
	require.NoError(t, os.WriteFile(path+"-wal", []byte("rows"), 0o600))
	require.NoError(t, os.WriteFile(path+"-shm", nil, 0o600))
	note, err := Create(t.Context(), path, appending(path, "new"))
	require.NoError(t, err)
	all := names(t, dir)
	require.Len(t, all, 4)
	require.Regexp(t, `^month\.db-shm\.left-\d{4}-\d\d-\d\dT\d{6}$`, all[2])
	require.Regexp(t, `^month\.db-wal\.left-`, all[3])
	require.Equal(t, "SQLite's log of an earlier month.db, which was moved away, is set aside as "+all[3]+", "+all[2]+
		": it may hold rows that the moved file lacks", note)
	found, err := os.ReadFile(filepath.Join(dir, all[3]))
	require.NoError(t, err)
	require.Equal(t, "rows", string(found))

	require.NoError(t, os.WriteFile(path+"-wal", []byte("live"), 0o600))
	_, err = Create(t.Context(), path, appending(path, "newer"))
	require.ErrorIs(t, err, fs.ErrExist)
	require.FileExists(t, path+"-wal")
}
