package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// query runs condor_status and decodes what it prints while it prints it.
func query(asked context.Context, o Options) (answer, error) {
	args := []string{"-constraint", "GPUs >= 1", "-json", "-attributes", strings.Join(attributes, ",")}
	var got answer
	complaint, err := o.ask(asked, o.CondorStatus, args, func(output io.Reader) (err error) {
		got, err = decode(output)
		return err
	})
	switch {
	case err != nil:
		return answer{}, err
	case len(got.ads) == 0:
		return answer{}, pool.SourceError("%s knows no slot with a GPU%s: is it the right pool, and may this machine ask it?",
			o.CondorStatus, complaint)
	}
	return got, nil
}

// ask runs one of HTCondor's tools, and decodes what it prints while it prints it. complaint is what it wrote to its
// standard error.
func (o Options) ask(asked context.Context, program string, args []string,
	decode func(io.Reader) error) (complaint *head, err error) {
	ctx, cancel := context.WithTimeoutCause(asked, o.Timeout, errTimeout)
	defer cancel()
	if o.Pool != "" {
		args = append(args, "-pool", o.Pool)
	}
	command := exec.CommandContext(ctx, program, args...)
	output, input := io.Pipe()
	passed, complaint := &bounded{input, o.maxOutput}, &head{limit: 2000}
	command.Stdout, command.Stderr = passed, complaint
	command.WaitDelay = 5 * time.Second // a descendant that left the group may hold the pipes
	ownGroup(command)

	decoded := make(chan struct{})
	var broken error
	parallel.Go(func() error { return decode(output) }, func(err error) {
		defer close(decoded)
		if broken = err; broken != nil {
			cancel() // nothing that follows can mend it
		}
		_, _ = io.Copy(io.Discard, output)
	})
	failed := command.Run()
	input.Close()
	<-decoded

	var exit *exec.ExitError
	switch {
	case asked.Err() != nil:
		err = fmt.Errorf("asking the pool with %s: %w", program, asked.Err())
	case errors.Is(context.Cause(ctx), errTimeout):
		err = pool.SourceError("%s did not end within %s%s: check that the collector answers, or give it more time", program,
			o.Timeout, complaint)
	case passed.left < 0:
		err = pool.SourceError("%s prints more than %d MiB", program, o.maxOutput>>20)
	case broken != nil && !(errors.As(failed, &exit) && exit.Exited()):
		err = broken
	case errors.As(failed, &exit):
		err = pool.SourceError("%s failed (%w)%s", program, failed, complaint)
	case errors.Is(failed, exec.ErrNotFound):
		err = pool.SourceError("%w: install HTCondor's tools, or say where it is", failed)
	case failed != nil:
		err = pool.SourceError("running %s: %w%s", program, failed, complaint)
	}
	return complaint, err
}

var errTimeout = errors.New("time is up")

// bounded passes so many bytes on.
type bounded struct {
	w    io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("too much output")
	}
	return b.w.Write(p)
}

// head keeps the beginning of what is written.
type head struct {
	limit int
	text  []byte
	more  int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.text))
	h.text = append(h.text, p[:n]...)
	h.more += len(p) - n
	return len(p), nil
}

// String is what is kept, as the end of a sentence.
func (h *head) String() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(h.text), "\uFFFD"))
	if text == "" {
		return ""
	}
	if h.more > 0 {
		text += fmt.Sprintf("… (%d bytes more)", h.more)
	}
	return ": " + text
}
