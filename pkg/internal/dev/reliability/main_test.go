package reliability

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
)

var (
	scratch string // a directory for the whole run

	long   = flag.Bool("long", false, "run the long version, which takes about half an hour")
	report = flag.String("report", "", "a Markdown file whose figures are replaced by those of this run")
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.DefaultLogger = log.NewNullLogger() // answers are what matters
	backend.Logger = log.DefaultLogger
	var err error
	if scratch, err = os.MkdirTemp("", "gpureports-reliability-"); err != nil {
		panic(err)
	}
	code := m.Run()
	jobstest.StopServers()
	os.RemoveAll(scratch)
	if code == 0 && *report != "" {
		if err := writeFigures(*report); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var (
	figuresLock sync.Mutex
	figureLines []string
)

// figure notes what a test has measured, for the report.
func figure(what, format string, args ...any) {
	figuresLock.Lock()
	defer figuresLock.Unlock()
	line := fmt.Sprintf("| %s | %s |", what, fmt.Sprintf(format, args...))
	figureLines = append(figureLines, line)
	if testing.Verbose() {
		fmt.Println(line)
	}
}

// writeFigures puts the figures between the marks of the report.
func writeFigures(path string) error {
	const begin, end = "<!-- figures of the last run -->\n", "<!-- end of figures -->"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no marks %s%s", path, begin, end)
	}
	kind := "short"
	if *long {
		kind = "long"
	}
	head := fmt.Sprintf("The %s version on %s:\n\n| what | figure |\n|---|---|\n", kind, machine())
	return os.WriteFile(path, []byte(before+begin+head+strings.Join(figureLines, "\n")+"\n"+end+after), 0o644)
}

// machine says on what the figures were taken.
func machine() string {
	return fmt.Sprintf("%s/%s with %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
