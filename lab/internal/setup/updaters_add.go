package setup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// maxUpdaterName leaves room for processPrefix in the name of a process.
const maxUpdaterName = 32

// cleanupTimeout bounds what is still done when a command was interrupted.
const cleanupTimeout = 15 * time.Second

// maxAnswer bounds what is read of an updater's answer, which is one line.
const maxAnswer = 4 << 10

// CheckUpdaterName says whether an updater that runs on a plane can have a name.
func CheckUpdaterName(name string) error {
	if len(name) > maxUpdaterName {
		return fmt.Errorf("the name %q has %d characters: use at most %d", name, len(name), maxUpdaterName)
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("the name %q is not valid: use lower case letters, digits and dashes, a letter or digit at both ends", name)
	}
	return nil
}

// AddUpdater runs a simulated updater on a plane where the extension runs, and registers it under a name that nobody has. When
// it fails, it leaves nothing of the updater behind.
func AddUpdater(ctx context.Context, plane *devplane.Plane, lab string, u SimulatedUpdater) error {
	if err := CheckUpdaterName(u.Name); err != nil {
		return err
	}
	return addUpdater(ctx, plane, u.Name, func(client.WithWatch) error {
		_, err := RegisterUpdater(ctx, plane, lab, u)
		return err
	})
}

// addUpdater adds an updater under a name that nobody has. When add fails, it removes what there is of the updater.
func addUpdater(ctx context.Context, plane *devplane.Plane, name string, add func(client.WithWatch) error) error {
	c, err := checkNewUpdater(ctx, plane, name)
	if err != nil {
		return err
	}
	if err := add(c); err != nil {
		cleanupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return errors.Join(err, removeUpdater(cleanupCtx, plane, c, name))
	}
	return nil
}

// checkNewUpdater sees that an updater would be asked, and that nobody has its name. It returns a client of the plane.
func checkNewUpdater(ctx context.Context, plane *devplane.Plane, name string) (client.WithWatch, error) {
	status, err := plane.Status(ctx)
	if err != nil {
		return nil, err
	}
	if child(status, ExtensionName) == nil {
		return nil, errors.New("the extension does not run on this cluster, so nobody would ask an updater: start the cluster with it")
	}
	if child(status, UpdaterProcess(name)) != nil {
		return nil, fmt.Errorf("there is an updater %q already: choose another name, or delete it first", name)
	}
	c, err := Connect(plane)
	if err != nil {
		return nil, err
	}
	err = c.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.Updater{})
	if err == nil {
		return nil, fmt.Errorf("there is an Updater %q already, which was registered by other means: choose another name, or delete it with kubectl first", name)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading Updater %s: %w", name, err)
	}
	return c, nil
}

// RemoveUpdater unregisters an updater that AddUpdater or RegisterUpdater started, and ends it.
func RemoveUpdater(ctx context.Context, plane *devplane.Plane, name string) error {
	if _, err := runningUpdater(ctx, plane, name); err != nil {
		return err
	}
	c, err := Connect(plane)
	if err != nil {
		return err
	}
	return removeUpdater(ctx, plane, c, name)
}

// removeUpdater takes away what there is of an updater: the object first, so that nobody calls a process that has gone.
func removeUpdater(ctx context.Context, plane *devplane.Plane, c client.Client, name string) error {
	object := &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		return fmt.Errorf("deleting Updater %s: %w", name, err)
	}
	status, err := plane.Status(ctx)
	if err != nil {
		return err
	}
	if child(status, UpdaterProcess(name)) == nil {
		return nil
	}
	if _, err := plane.RemoveChild(ctx, UpdaterProcess(name)); err != nil {
		return fmt.Errorf("ending updater %s: %w", name, err)
	}
	return nil
}

// SetBehaviour sends a body to /behaviour of an updater that runs on a plane.
func SetBehaviour(ctx context.Context, plane *devplane.Plane, name string, body []byte) error {
	process, err := runningUpdater(ctx, plane, name)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/behaviour", process.Ports[StatsPort])
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking updater %s: %w", name, err)
	}
	response, err := plane.HTTPClient().Do(request)
	if err != nil {
		return fmt.Errorf("asking updater %s: %w", name, err)
	}
	defer func() { _ = response.Body.Close() }() // only read from
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("asking updater %s: %w", name, err)
	}
	return fmt.Errorf("updater %s refuses: %s", name, strings.TrimSpace(string(answer)))
}

// UpdaterStatus is one registered updater.
type UpdaterStatus struct {
	Name  string
	Order int32
	// Process is its process on the plane; nil where it runs elsewhere.
	Process *devplane.ChildStatus
	// Ready says whether the extension can ask it; Message why not.
	Ready   bool
	Message string
}

// Updaters lists the updaters that are registered on a plane, in the order in which they are asked.
func Updaters(ctx context.Context, plane *devplane.Plane) ([]UpdaterStatus, error) {
	status, err := plane.Status(ctx)
	if err != nil {
		return nil, err
	}
	if child(status, ExtensionName) == nil {
		return nil, nil // nor is there the kind
	}
	c, err := Connect(plane)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.UpdaterList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Updaters: %w", err)
	}
	return updaterStatuses(list.Items, status), nil
}

func updaterStatuses(items []v1alpha1.Updater, status devplane.Status) []UpdaterStatus {
	out := make([]UpdaterStatus, 0, len(items))
	for _, item := range items {
		s := UpdaterStatus{Name: item.Name, Order: item.Spec.Order, Process: child(status, UpdaterProcess(item.Name))}
		if c := meta.FindStatusCondition(item.Status.Conditions, v1alpha1.ReadyCondition); c != nil {
			s.Ready, s.Message = c.Status == metav1.ConditionTrue, c.Message
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b UpdaterStatus) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), strings.Compare(a.Name, b.Name))
	})
	return out
}

// child finds a process of a plane; nil where there is none of that name.
func child(status devplane.Status, name string) *devplane.ChildStatus {
	at := slices.IndexFunc(status.Children, func(c devplane.ChildStatus) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	found := status.Children[at]
	return &found
}

// runningUpdater finds the process of an updater.
func runningUpdater(ctx context.Context, plane *devplane.Plane, name string) (devplane.ChildStatus, error) {
	status, err := plane.Status(ctx)
	if err != nil {
		return devplane.ChildStatus{}, err
	}
	if process := child(status, UpdaterProcess(name)); process != nil {
		return *process, nil
	}
	var names []string
	for _, c := range status.Children {
		if updater, is := strings.CutPrefix(c.Name, processPrefix); is {
			names = append(names, updater)
		}
	}
	if len(names) == 0 {
		return devplane.ChildStatus{}, fmt.Errorf("no updater %q runs on this cluster; none does", name)
	}
	return devplane.ChildStatus{}, fmt.Errorf("no updater %q runs on this cluster; there are %s", name, strings.Join(names, ", "))
}
