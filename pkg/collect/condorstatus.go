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

// constraint selects slots with GPUs, including one whose only GPU was taken offline under its job: it has GPUs = 0.
const constraint = "GPUs >= 1 || AssignedGPUs isnt undefined"

// query runs condor_status and decodes its output as it arrives.
func query(asked context.Context, o Options) (slotList, error) {
	args := []string{"-constraint", constraint, "-json", "-attributes", strings.Join(names(slotAttributes), ",")}
	var got slotList
	complaint, err := o.ask(asked, o.CondorStatus, args, func(output io.Reader) (err error) {
		got, err = decode(output)
		return err
	})
	switch {
	case err != nil:
		return slotList{}, err
	case len(got.slots) == 0:
		return slotList{}, pool.SourceError("%s knows no slot with a GPU%s: is it the right pool, and may this machine "+
			"ask it?",
			o.CondorStatus, complaint)
	case !got.lacksModels():
		return got, nil
	}
	args = []string{"-constraint", "(" + constraint + ") && (GPUs_DeviceName is undefined || " +
		"GPUs_GlobalMemoryMb is undefined)", "-json"}
	_, err = o.ask(asked, o.CondorStatus, args, func(output io.Reader) (err error) {
		got.models, err = decodeModels(output)
		return err
	})
	return got, err
}

// ask runs one of HTCondor's tools, and decodes its output as it arrives. complaint is its standard error.
func (o Options) ask(asked context.Context, program string, args []string,
	decode func(io.Reader) error) (complaint *head, err error) {
	ctx, cancel := context.WithTimeoutCause(asked, o.Timeout, errTimeout)
	defer cancel()
	if o.Pool != "" {
		args = append(args, "-pool", o.Pool)
	}
	command := exec.CommandContext(ctx, program, args...)
	output, input := io.Pipe()
	limited, complaint := &io.LimitedReader{R: output, N: int64(o.maxOutput) + 1}, &head{}
	command.Stdout, command.Stderr = input, complaint
	command.WaitDelay = 5 * time.Second // a descendant that left the group may hold the pipes
	ownGroup(command)

	decoded := make(chan struct{})
	var broken error
	parallel.Go(func() error { return decode(limited) }, func(err error) {
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
	case limited.N <= 0:
		err = pool.SourceError("%s prints more than %d MiB", program, o.maxOutput>>20)
	case broken != nil && !(errors.As(failed, &exit) && exit.Exited()):
		err = broken
	case errors.As(failed, &exit):
		err = pool.SourceError("%s failed (%w)%s", program, failed, complaint)
	case errors.Is(failed, exec.ErrNotFound):
		err = pool.SourceError("%w: install HTCondor's tools, or give its path", failed)
	case failed != nil:
		err = pool.SourceError("running %s: %w%s", program, failed, complaint)
	}
	return complaint, err
}

var errTimeout = errors.New("time is up")

// head keeps the beginning of the written text.
type head struct {
	text []byte
	more int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), 2000-len(h.text))
	h.text = append(h.text, p[:n]...)
	h.more += len(p) - n
	return len(p), nil
}

// String is the kept text, as the end of a sentence.
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
