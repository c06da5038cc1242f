package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// updater updates machines, each by a command. What was handed over is in files, so that it survives a restart.
type updater struct {
	// work ends commands when the process ends. A request's own context must not: it ends with the request.
	work      context.Context //nolint:containedctx // It is the process', not a request's.
	options   options
	inventory []entry
	machines  metadata.Getter
	objects   dynamic.Interface
	// running are the jobs that have not ended.
	running sync.WaitGroup

	mu sync.Mutex
	// jobs are the newest jobs by machine.
	jobs map[string]*job
	// groups are hand-overs of whole groups, by operation.
	groups map[string]*group
	// cancelled are operations that were cancelled before they were known: their Start may still come.
	cancelled map[string]bool
}

// job is an attempt to update a machine.
type job struct {
	handedOver
	// cancel ends the command, and ended is closed when the result is recorded or the process ends.
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

// handedOver is what the state folder keeps of a machine.
type handedOver struct {
	Operation string               `json:"operation"`
	Machine   updatesv1.ObjectName `json:"machine"`
	Version   string               `json:"version"`
	// Ended says that there is a result; Failed is why the attempt failed, empty if it succeeded.
	Ended  bool   `json:"ended,omitempty"`
	Failed string `json:"failed,omitempty"`
}

// errCancelled is the cause where Windlass ends an attempt.
var errCancelled = errors.New("cancelled")

// versionPattern is what Kubernetes versions look like.
var versionPattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]*)?$`)

// start takes a machine over. An operation that is known is accepted, and does not begin again.
func (u *updater) start(request *updatesv1.HandOverRequest) error {
	if len(request.Machines) != 1 || request.OperationID == "" || request.Desired == nil {
		return errors.New("a Start must have an operation id, desired objects and one machine")
	}
	machine := request.Machines[0]
	if u.place(machine) < 0 {
		return fmt.Errorf("the Machine %s is not in the inventory", nameOf(machine))
	}
	version, err := versionOf(request)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cancelled[request.OperationID] {
		return fmt.Errorf("the operation %s was cancelled before it began", request.OperationID)
	}
	if old := u.jobs[nameOf(machine)]; old != nil {
		if old.Operation == request.OperationID {
			return nil
		}
		old.cancel(fmt.Errorf("%w: another attempt takes its place", errCancelled))
		<-old.ended
	}
	taken := handedOver{Operation: request.OperationID, Machine: machine, Version: version}
	if err := u.write(taken); err != nil {
		return err
	}
	u.begin(taken)
	return nil
}

// versionOf returns the desired version. It becomes an argument of the command, and people who can write Machines choose it.
func versionOf(request *updatesv1.HandOverRequest) (string, error) {
	spec, err := specOf(request.Desired.Machine)
	if err != nil {
		return "", err
	}
	version, _ := spec["version"].(string)
	if !versionPattern.MatchString(version) {
		return "", fmt.Errorf("spec.version of the desired Machine is %q, which is no version such as v1.32.1", version)
	}
	return version, nil
}

// cancel ends an attempt, for a reason. It returns when the command has ended.
func (u *updater) cancel(operation, reason string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, j := range u.jobs {
		if j.Operation == operation {
			j.cancel(fmt.Errorf("%w: %s", errCancelled, reason))
			<-j.ended
			return nil
		}
	}
	if known, err := u.cancelGroup(operation, reason); known {
		return err
	}
	u.cancelled[operation] = true
	return nil
}

// resume continues what an earlier process was handed over: it runs the commands whose end is not recorded again, and
// repeats the marks of the others, because it may have been killed before it wrote them.
func (u *updater) resume() error {
	files, err := filepath.Glob(filepath.Join(u.options.stateDir, "*.json"))
	if err != nil {
		return fmt.Errorf("listing the state folder: %w", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading what was handed over: %w", err)
		}
		var taken handedOver
		if err := json.Unmarshal(content, &taken); err != nil {
			return fmt.Errorf("reading what was handed over: %s: %w", file, err)
		}
		if u.place(taken.Machine) < 0 {
			fmt.Fprintf(os.Stderr, "handover: Machine %s was handed over, and is no longer in the inventory\n", nameOf(taken.Machine))
			continue
		}
		u.begin(taken)
	}
	return u.resumeGroups()
}

// begin runs a job. The caller holds mu.
func (u *updater) begin(taken handedOver) {
	ctx, cancel := context.WithCancelCause(u.work)
	j := &job{handedOver: taken, cancel: cancel, ended: make(chan struct{})}
	u.jobs[nameOf(taken.Machine)] = j
	u.running.Go(func() {
		defer cancel(nil)
		u.finish(u.runJob(ctx, j))
	})
}

// runJob runs the command of a job and records its result. It returns what is to be marked. An attempt that ends because
// the process does has no result.
func (u *updater) runJob(ctx context.Context, j *job) handedOver {
	defer close(j.ended)
	result := j.handedOver
	if result.Ended {
		return result
	}
	host := u.inventory[u.place(result.Machine)].Host
	message := fmt.Sprintf("%s: updating %s to %s", result.Operation, host, result.Version)
	if err := u.annotate(ctx, result.Machine, v1alpha1.UpdateMessageAnnotation, message); err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err) // It is for people; the update need not wait for it.
	}
	output, err := u.newCommand(ctx, host, result.Version).CombinedOutput()
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		result.Failed = context.Cause(ctx).Error()
	case u.work.Err() != nil:
		return result
	case err != nil:
		result.Failed = fmt.Sprintf("running %s: %v: %s", u.options.command, err, lastLine(output))
	}
	result.Ended = true
	if err := u.write(result); err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
	}
	return result
}

// waitDelay is how long an ended command is waited for if a process that left its group keeps its output open.
const waitDelay = 5 * time.Second

// newCommand returns the command that updates a host. The end of ctx ends it with its children: an attempt is not
// cancelled while a child, such as ssh, still changes the host.
func (u *updater) newCommand(ctx context.Context, host, version string) *exec.Cmd {
	//nolint:gosec // The command is the user's, the host is from the inventory, and the version was checked.
	cmd := exec.CommandContext(ctx, u.options.command, host, version)
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, waitDelay
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	return cmd
}

// maxReasonBytes bounds a reason: the API server refuses annotations that are too long.
const maxReasonBytes = 1 << 10

// lastLine returns the last line of an output, as much of it as a reason may have.
func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := lines[len(lines)-1]
	return strings.ToValidUTF8(last[:min(len(last), maxReasonBytes)], "")
}

// retryEvery is how long to wait after the API server did not take a mark.
const retryEvery = 2 * time.Second

// finish marks the Machine of a job that has ended. It tries until it succeeds, the Machine is gone, another attempt has
// taken the place of this one, or the process ends.
func (u *updater) finish(result handedOver) {
	key, value := v1alpha1.UpdatedAnnotation, result.Operation
	switch {
	case !result.Ended:
		return
	case result.Failed != "":
		key, value = v1alpha1.UpdateFailedAnnotation, result.Operation+": "+result.Failed
	}
	//nolint:errcheck // It fails only when the process ends; the next one repeats the mark.
	wait.PollUntilContextCancel(u.work, retryEvery, true, func(ctx context.Context) (bool, error) {
		if !u.isNewest(result) {
			return true, nil // Its mark would hide that of the other one, and nobody waits for it.
		}
		err := u.annotate(ctx, result.Machine, key, value)
		if err != nil {
			fmt.Fprintln(os.Stderr, "handover:", err)
		}
		return err == nil || apierrors.IsNotFound(err), nil
	})
}

// isNewest reports whether a job is the newest of its Machine.
func (u *updater) isNewest(result handedOver) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.jobs[nameOf(result.Machine)].Operation == result.Operation
}

// annotate sets an annotation of a Machine.
func (u *updater) annotate(ctx context.Context, machine updatesv1.ObjectName, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return fmt.Errorf("writing an annotation: %w", err)
	}
	_, err = u.machines.Namespace(machine.Namespace).Patch(ctx, machine.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("annotating Machine %s: %w", nameOf(machine), err)
	}
	return nil
}

func (u *updater) write(taken handedOver) error {
	return u.writeFile(strings.ReplaceAll(nameOf(taken.Machine), "/", "_")+".json", taken)
}

// writeFile writes beside and renames, so that the file is whole whenever the process is killed.
func (u *updater) writeFile(name string, taken any) error {
	content, err := json.Marshal(taken)
	if err != nil {
		return fmt.Errorf("writing what was handed over: %w", err)
	}
	beside, err := os.CreateTemp(u.options.stateDir, ".new-*")
	if err != nil {
		return fmt.Errorf("writing what was handed over: %w", err)
	}
	defer func() { _ = os.Remove(beside.Name()) }()
	_, err = beside.Write(content)
	if err = errors.Join(err, beside.Sync(), beside.Close()); err != nil {
		return fmt.Errorf("writing what was handed over: %w", err)
	}
	if err := os.Rename(beside.Name(), filepath.Join(u.options.stateDir, name)); err != nil {
		return fmt.Errorf("writing what was handed over: %w", err)
	}
	return nil
}
