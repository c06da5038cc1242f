package k8sd_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/test/loopback"
)

const (
	token    = "s3cr3t-of-the-node"
	takes    = time.Minute
	oldSnap  = "1.31-classic/stable"
	newSnap  = "channel=1.32-classic/stable"
	local    = "localPath=/opt/k8s.snap"
	changeID = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeChangeID
)

var (
	machine = types.NamespacedName{Namespace: "default", Name: "m"}
	start   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// world is one machine with a k8sd, a clock, and faults of the management cluster.
type world struct {
	server *k8sdtest.Server
	config v1alpha1.K8sdConfig

	// nodeMu is for what k8sd looks at, mu for the management cluster.
	nodeMu  sync.Mutex
	now     time.Time
	kubelet string

	mu       sync.Mutex
	machines map[types.NamespacedName]*k8sd.Machine
	version  int
	secrets  map[types.NamespacedName]map[string][]byte
	written  []string
	// onAnnotate is called before each change of annotations; its error keeps the change from happening.
	onAnnotate func(number int, record string) error
	readError  error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		now: start, kubelet: porttest.UpdaterFrom,
		machines: map[types.NamespacedName]*k8sd.Machine{machine: {
			Name: machine, Cluster: porttest.UpdaterCluster, Node: "node-m", ResourceVersion: "0", Annotations: map[string]string{"kept": "as it is"},
			Addresses: clusterv1.MachineAddresses{{Type: clusterv1.MachineExternalIP, Address: "203.0.113.1"}, {Type: clusterv1.MachineInternalIP, Address: "127.0.0.1"}},
		}},
		secrets: map[types.NamespacedName]map[string][]byte{
			{Namespace: machine.Namespace, Name: porttest.UpdaterCluster + "-token"}: {"node-token-m": []byte(token + "\n")},
		},
	}
	var err error
	w.server, err = k8sdtest.New(k8sdtest.Options{
		Address:  net.JoinHostPort("127.0.0.1", strconv.Itoa(loopback.FreePort(t))), // Tests stop it and start it again.
		Duration: takes, Now: w.clock, Apply: w.apply, Names: []string{"node-m"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.server.Close)
	if err := w.server.AddMachine(machine.Name, token, k8sdtest.Option{Channel: oldSnap}); err != nil {
		t.Fatal(err)
	}
	w.config = v1alpha1.K8sdConfig{
		Reach: v1alpha1.K8sdDirect, Port: w.server.Port(), TLS: v1alpha1.K8sdTLS{CABundle: w.server.CABundle()}, Channel: "{minor}-classic/stable",
	}
	return w
}

func (w *world) clock() time.Time {
	w.nodeMu.Lock()
	defer w.nodeMu.Unlock()
	return w.now
}

// pass lets time pass; changes whose time is over end.
func (w *world) pass(d time.Duration) {
	w.nodeMu.Lock()
	w.now = w.now.Add(d)
	w.nodeMu.Unlock()
	w.server.Settle()
}

func (w *world) apply(_ context.Context, _ string, o k8sdtest.Option) error {
	w.nodeMu.Lock()
	defer w.nodeMu.Unlock()
	w.kubelet = "v1.32.0 by " + o.Channel + o.Revision + o.LocalPath
	return nil
}

// Machine implements k8sd.Machines.
func (w *world) Machine(_ context.Context, name types.NamespacedName) (k8sd.Machine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.readError != nil {
		return k8sd.Machine{}, w.readError
	}
	m := w.machines[name]
	if m == nil {
		return k8sd.Machine{}, apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("machines").GroupResource(), name.Name)
	}
	read := *m
	read.Annotations = maps.Clone(m.Annotations)
	return read, nil
}

// Annotate implements k8sd.Machines.
func (w *world) Annotate(ctx context.Context, name types.NamespacedName, resourceVersion string, changes map[string]*string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[name]
	record := changes[v1alpha1.RefreshAnnotation]
	if w.onAnnotate != nil {
		if err := w.onAnnotate(len(w.written), *record); err != nil {
			return err
		}
	}
	if resourceVersion != "" && resourceVersion != m.ResourceVersion {
		return apierrors.NewConflict(clusterv1.GroupVersion.WithResource("machines").GroupResource(), name.Name, errors.New("it was changed"))
	}
	w.version++
	m.ResourceVersion = strconv.Itoa(w.version)
	for key, value := range changes {
		if value == nil {
			delete(m.Annotations, key)
		} else {
			m.Annotations[key] = *value
		}
	}
	w.written = append(w.written, *record)
	return nil
}

func (w *world) secret(_ context.Context, name types.NamespacedName) (map[string][]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data, ok := w.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
	}
	return data, nil
}

func (w *world) readKubelet(context.Context, types.NamespacedName, string) (string, error) {
	w.nodeMu.Lock()
	defer w.nodeMu.Unlock()
	return w.kubelet, nil
}

func (w *world) options() k8sd.Options {
	return k8sd.Options{Config: w.config, Machines: w, Secret: w.secret, Kubelet: w.readKubelet, Now: w.clock}
}

// updater is a new one each time, as after a restart: what it knows stands on the Machine.
func (w *world) updater(t *testing.T) *k8sd.Updater {
	t.Helper()
	u, err := k8sd.New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// ask makes a request for an option, or, where it is empty, for the version porttest.UpdaterTo.
func (w *world) ask(t *testing.T, operation, option string) inplace.Answer {
	t.Helper()
	return w.askWith(t.Context(), t, operation, option)
}

func (w *world) askWith(ctx context.Context, t *testing.T, operation, option string) inplace.Answer {
	t.Helper()
	request := porttest.UpdateMachine(machine, porttest.UpdaterTo, operation)
	if option != "" {
		request.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation] = option
	}
	answer := w.updater(t).UpdateMachine(ctx, request)
	w.checkSecret(t, answer.Message)
	return answer
}

// checkSecret holds that the token is nowhere but in its Secret.
func (w *world) checkSecret(t *testing.T, said string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range append([]string{said}, w.written...) {
		if strings.Contains(text, token) {
			t.Errorf("the token is in %q", text)
		}
	}
}

func (w *world) faults(t *testing.T, f k8sdtest.Faults) {
	t.Helper()
	if err := w.server.SetFaults(machine.Name, f); err != nil {
		t.Fatal(err)
	}
}

func (w *world) annotations() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.machines[machine].Annotations)
}

func (w *world) annotate(key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[machine].Annotations[key] = value
}

// record is the record on the Machine, without what depends on the clock.
func (w *world) record(t *testing.T) map[string]any {
	t.Helper()
	written := w.annotations()[v1alpha1.RefreshAnnotation]
	if written == "" {
		return nil
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(written), &r); err != nil {
		t.Fatal(err)
	}
	delete(r, "requested")
	return r
}

// expect checks an answer, and how many refreshes have really begun.
func (w *world) expect(t *testing.T, got inplace.Answer, want inplace.Outcome, words string, refreshes int) {
	t.Helper()
	if got.Outcome != want || !strings.Contains(got.Message, words) || got.Message == "" {
		t.Errorf("the answer is %+v, want outcome %d and %q", got, want, words)
	}
	if (want == inplace.InProgress) != (got.RetryAfter > 0) {
		t.Errorf("the answer %+v says to come back after %s", got, got.RetryAfter)
	}
	if state, _ := w.server.Machine(machine.Name); state.Refreshes != refreshes {
		t.Errorf("after %+v, %d refreshes have begun, want %d", got, state.Refreshes, refreshes)
	}
}
