package judge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
)

// Command is the windlass binary, and the kubeconfig that it gets.
type Command struct{ Windlass, Kubeconfig string }

// Recording is what a command shows of a Cluster.
type Recording struct {
	Command

	history *history.History
	cluster types.NamespacedName
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	shown   []Moment
	seconds []time.Time
	failure error
	cpu     time.Duration
}

// Watch records what `windlass status --watch` shows of Clusters until the test ends, and then
// fails the test for each answer that was missing, wrong or older than Lag seconds. Beside other
// tests an answer may be BusyLag seconds old, and wrong for less than Lag; what is older than Lag is
// logged. With WINDLASS_LONG=1, which has nothing beside it, that fails the test.
func Watch(
	ctx context.Context, t *testing.T, h *history.History, command Command,
	clusters ...types.NamespacedName,
) {
	t.Helper()
	if err := Follow(ctx, h); err != nil {
		t.Fatal(err)
	}
	for _, cluster := range clusters {
		r := Record(ctx, h, command, cluster)
		t.Cleanup(func() {
			late, err := r.End(Lag)
			if err != nil {
				t.Error(err)
			}
			faults := late
			if os.Getenv("WINDLASS_LONG") != "1" {
				faults, _ = r.End(BusyLag)
				faults = slices.DeleteFunc(faults, func(f Fault) bool {
					return f.To.Sub(f.From) < Lag*time.Second
				})
			}
			t.Logf("judge: %s, %d answers older than %d s, %d faults",
				r, len(late), Lag, len(faults))
			for _, f := range late {
				t.Log(f.Line())
			}
			for _, f := range faults {
				t.Errorf("windlass status of %s: %s", cluster, f)
			}
		})
	}
}

// Follow makes a History follow all kinds that the questions are about. A kind that the API server
// does not know has no objects.
func Follow(ctx context.Context, h *history.History) error {
	for _, kind := range []client.Object{&v1alpha1.UpgradeGate{}, &coordinationv1.Lease{}} {
		if err := h.Include(ctx, kind); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("following what status is about: %w", err)
		}
	}
	return nil
}

// Record begins a Recording of a Cluster. It needs one process. ctx ends it, too.
func Record(
	ctx context.Context, h *history.History, command Command, cluster types.NamespacedName,
) *Recording {
	ctx, cancel := context.WithCancel(ctx)
	r := &Recording{Command: command, history: h, cluster: cluster, end: cancel}
	r.running.Go(func() { r.count(ctx) })
	r.running.Go(func() { r.follow(ctx) })
	return r
}

// End ends a Recording, and returns what was wrong in it, by Compare with the lag. It is an error
// if the command failed, or showed nothing.
func (r *Recording) End(lag int) ([]Fault, error) {
	r.end()
	r.running.Wait()
	if r.failure == nil && len(r.shown) == 0 {
		r.failure = fmt.Errorf("windlass status showed nothing of %s", r.cluster)
	}
	truth := Truth(r.history.Facts(isAbout(r.cluster)), r.cluster, time.Now())
	return Compare(truth, r.shown, r.seconds, lag), r.failure
}

// String tells how much was compared, once the Recording has ended.
func (r *Recording) String() string {
	return fmt.Sprintf("%s: %d seconds, %d statuses, %.1f s of processor time",
		r.cluster, len(r.seconds), len(r.shown), r.cpu.Seconds())
}

// count counts the seconds.
func (r *Recording) count(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			r.mu.Lock()
			r.seconds = append(r.seconds, now)
			r.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// follow runs the command whenever the Cluster exists. It ends when an upgrade is done.
func (r *Recording) follow(ctx context.Context) {
	for {
		err := r.history.Until(ctx, func() string {
			if r.history.Now(r.cluster).Cluster.UID == "" {
				return "there is no Cluster"
			}
			return ""
		})
		if err != nil {
			return
		}
		err = r.run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && r.history.Now(r.cluster).Cluster.UID != "":
			r.mu.Lock()
			r.failure = err
			r.mu.Unlock()
			return
		}
	}
}

func (r *Recording) run(ctx context.Context) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.Windlass, "status", r.cluster.Name,
		"--namespace", r.cluster.Namespace, "--kubeconfig", r.Kubeconfig, "--watch", "--output", "json")
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting windlass status: %w", err)
	}
	readErr := r.read(stdout)
	err = errors.Join(readErr, cmd.Wait())
	r.mu.Lock()
	r.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("windlass status %s: %w\n%s", r.cluster, err, stderr.String())
	}
	return nil
}

// read reads a document from each line.
func (r *Recording) read(stdout io.Reader) error {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a status: %w", err)
		}
		now := time.Now()
		moment, err := ReadStatus(line)
		if err != nil {
			return err
		}
		moment.At = now
		r.mu.Lock()
		r.shown = append(r.shown, moment)
		r.mu.Unlock()
	}
}
