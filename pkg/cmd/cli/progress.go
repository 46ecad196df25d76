package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/chtc/gpureports/pkg/parallel"
)

// Working shows on a terminal that long work is in progress, until stop is called. Elsewhere it is silent.
func Working(w io.Writer, what string) (stop func()) {
	file, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return func() {}
	}
	return workingOn(w, what, time.Second)
}

// workingOn rewrites one line at each pause, and removes it at the end.
func workingOn(w io.Writer, what string, pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	parallel.Go(func() error {
		begin, written := time.Now(), false
		for parallel.Wait(ctx, pause) == nil {
			fmt.Fprintf(w, "\r%s … %s ", what, time.Since(begin).Round(time.Second))
			written = true
		}
		if written {
			fmt.Fprint(w, "\r\x1b[K")
		}
		return nil
	}, func(error) { close(ended) })
	return func() {
		cancel()
		<-ended
	}
}
