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

// recorder records what a command shows of a Cluster.
type recorder struct {
	Command

	history *history.History
	cluster types.NamespacedName

	mu      sync.Mutex
	shown   []Moment
	seconds []time.Time
	faults  []error
	cpu     time.Duration
}

// Watch records what `windlass status --watch` shows of Clusters until the test ends, and then
// fails the test for each answer that was missing, wrong or older than Lag seconds. It needs one
// process for each Cluster. The History must last as long as the test.
func Watch(ctx context.Context, t *testing.T, h *history.History, command Command, clusters ...types.NamespacedName) {
	t.Helper()
	for _, kind := range []client.Object{&v1alpha1.UpgradeGate{}, &coordinationv1.Lease{}} {
		if err := h.Include(ctx, kind); err != nil && !meta.IsNoMatchError(err) {
			t.Fatal(err)
		}
	}
	for _, cluster := range clusters {
		ctx, cancel := context.WithCancel(ctx)
		r := &recorder{Command: command, history: h, cluster: cluster}
		var running sync.WaitGroup
		running.Go(func() { r.count(ctx) })
		running.Go(func() { r.follow(ctx) })
		t.Cleanup(func() {
			cancel()
			running.Wait()
			r.judge(t)
		})
	}
}

// count counts the seconds.
func (r *recorder) count(ctx context.Context) {
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
func (r *recorder) follow(ctx context.Context) {
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
			r.faults = append(r.faults, err)
			r.mu.Unlock()
			return
		}
	}
}

func (r *recorder) run(ctx context.Context) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.Windlass, "status", r.cluster.Name, "--namespace", r.cluster.Namespace,
		"--kubeconfig", r.Kubeconfig, "--watch", "--output", "json")
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
func (r *recorder) read(stdout io.Reader) error {
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
		answers, err := ReadStatus(line)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.shown = append(r.shown, Moment{At: now, Answers: answers, Objects: document(line)})
		r.mu.Unlock()
	}
}

func (r *recorder) judge(t *testing.T) {
	t.Helper()
	for _, err := range r.faults {
		t.Error(err)
	}
	truth := Truth(r.history.Facts(isAbout(r.cluster)), r.cluster)
	faults := Compare(truth, r.shown, r.seconds)
	t.Logf("judge: %s: %d seconds, %d moments, %d statuses, %.1f s of processor, %d faults", r.cluster, len(r.seconds),
		len(truth), len(r.shown), r.cpu.Seconds(), len(faults))
	if len(r.shown) == 0 {
		t.Errorf("windlass status showed nothing of %s", r.cluster)
	}
	for _, f := range faults {
		t.Errorf("windlass status of %s: %s", r.cluster, f)
	}
}
