package handover_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/internal/updaters/handover"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
)

var machine = types.NamespacedName{Namespace: "ns", Name: "m-0"}

// implementer is who machines are handed over to, with the Machines of the management cluster.
type implementer struct {
	server *httptest.Server

	mu sync.Mutex
	// answer is the answer to everything; nil accepts.
	answer   http.HandlerFunc
	requests []updatesv1.HandOverRequest
	// begun are the operations that were accepted, by id, with their machine; done are those that ended.
	begun       map[string]types.NamespacedName
	done        map[string]bool
	annotations map[types.NamespacedName]map[string]string
	// broken is the error of reading Machines.
	broken error
}

func newImplementer(t *testing.T) *implementer {
	t.Helper()
	i := &implementer{
		begun: map[string]types.NamespacedName{}, done: map[string]bool{},
		annotations: map[types.NamespacedName]map[string]string{machine: {}, {Namespace: "ns", Name: "m-1"}: {}},
	}
	i.server = httptest.NewTLSServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.server.Close)
	return i
}

func (i *implementer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.answer != nil {
		i.answer(w, r)
		return
	}
	var request updatesv1.HandOverRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/hand/over" {
		http.Error(w, fmt.Sprint(r.URL, err), http.StatusBadRequest)
		return
	}
	i.requests = append(i.requests, request)
	if request.Phase == updatesv1.Start && !i.done[request.OperationID] {
		i.begun[request.OperationID] = types.NamespacedName(request.Machines[0])
	}
	_, _ = io.WriteString(w, response(true, ""))
}

func response(accepted bool, reason string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":"HandOverResponse","accepted":%t,"reason":%q,"future":1}`, updatesv1.APIVersion, accepted, reason)
}

// finish ends all updates that have begun.
func (i *implementer) finish() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for operation, name := range i.begun {
		if i.annotations[name] != nil && !i.done[operation] {
			i.annotations[name][v1alpha1.UpdatedAnnotation] = operation
			i.done[operation] = true
		}
	}
	clear(i.begun)
}

func (i *implementer) says(body string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func (i *implementer) mark(annotation, value string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.annotations[machine][annotation] = value
}

func (i *implementer) asked() []updatesv1.HandOverRequest {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests
}

func (i *implementer) connect(t *testing.T) *handover.Updater {
	t.Helper()
	u, err := handover.New(handover.Options{
		ClientOptions: updaters.ClientOptions{
			Name: "tested", URL: i.server.URL + "/hand/over",
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw}),
		},
		Machines: func(_ context.Context, namespace string, labels map[string]string) ([]metav1.PartialObjectMetadata, error) {
			if labels[clusterv1.ClusterNameLabel] != "cluster" {
				return nil, fmt.Errorf("nothing is known of Machines with %v", labels)
			}
			return []metav1.PartialObjectMetadata{
				memberOf(namespace, "m-2", "other-set"), memberOf(namespace, "m-1", "set"), memberOf(namespace, "m-0", "set"),
			}, nil
		},
		MachineAnnotations: func(_ context.Context, name types.NamespacedName) (map[string]string, error) {
			i.mu.Lock()
			defer i.mu.Unlock()
			if i.broken != nil {
				return nil, i.broken
			}
			if i.annotations[name] == nil {
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, name.Name)
			}
			return maps.Clone(i.annotations[name]), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// memberOf is a Machine that a MachineSet controls.
func memberOf(namespace, name, set string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: set, Controller: new(true)}},
	}}
}

func TestContract(t *testing.T) {
	t.Parallel()
	servertest.TestUpdater(t, func(t *testing.T) servertest.World {
		t.Helper()
		i := newImplementer(t)
		return servertest.World{
			Updater: i.connect(t), Machine: machine, Advance: i.finish,
			Works: func() int {
				i.mu.Lock()
				defer i.mu.Unlock()
				return len(i.done)
			},
		}
	})
}

func names(machines ...string) []updatesv1.ObjectName {
	var found []updatesv1.ObjectName
	for _, name := range machines {
		found = append(found, updatesv1.ObjectName{Namespace: "ns", Name: name})
	}
	return found
}

func encode(t *testing.T, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// setField sets a field of an object that a request holds.
func setField(t *testing.T, object runtime.RawExtension, value any, fields ...string) {
	t.Helper()
	held, ok := object.Object.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("the object is a %T", object.Object)
	}
	if err := unstructured.SetNestedField(held.Object, value, fields...); err != nil {
		t.Fatal(err)
	}
}

func TestOfferOfAMachine(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	request := porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo)
	request.Desired.Machine.Labels = map[string]string{clusterv1.MachineControlPlaneNameLabel: "cp"}
	// Fields that Cluster API does not compare are left alone.
	request.Desired.Machine.Spec.ProviderID = ""
	setField(t, request.Desired.BootstrapConfig, []any{"a"}, "spec", "files")
	patches, err := i.connect(t).CanUpdateMachine(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	want := cover.Patches{
		Machine:   cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"version":"v1.32.1"}}`)},
		Bootstrap: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"files":["a"]}}`)},
	}
	if diff := cmp.Diff(want, patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	offered := i.asked()[0]
	current, desired := *offered.Current, *offered.Desired
	offered.Current, offered.Desired = nil, nil
	if diff := cmp.Diff(updatesv1.HandOverRequest{
		APIVersion: updatesv1.APIVersion, Kind: "HandOverRequest", Phase: updatesv1.Offer,
		Cluster: updatesv1.ObjectName{Namespace: "ns", Name: "cluster"}, Owner: updatesv1.Owner{Namespace: "ns", Name: "cp"},
		Machines: []updatesv1.ObjectName{{Namespace: "ns", Name: "m-0"}}, Group: names("m-0", "m-1", "m-2"),
	}, offered); diff != "" {
		t.Errorf("the offer (-want +got):\n%s", diff)
	}
	for part, pair := range map[string][2]string{
		"current machine":           {encode(t, request.Current.Machine), string(current.Machine.Raw)},
		"desired machine":           {encode(t, request.Desired.Machine), string(desired.Machine.Raw)},
		"desired infrastructure":    {encode(t, request.Desired.InfrastructureMachine), string(desired.InfrastructureMachine.Raw)},
		"current bootstrap config":  {encode(t, request.Current.BootstrapConfig), string(current.BootstrapConfig.Raw)},
		"desired bootstrap config":  {encode(t, request.Desired.BootstrapConfig), string(desired.BootstrapConfig.Raw)},
		"current infrastructure is": {encode(t, request.Current.InfrastructureMachine), string(current.InfrastructureMachine.Raw)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s, want %s", part, pair[1], pair[0])
		}
	}
}

func TestOfferOfAMachineSet(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	request := porttest.CanUpdateMachineSet(types.NamespacedName{Namespace: "ns", Name: "set"}, porttest.UpdaterFrom, porttest.UpdaterTo)
	for _, set := range []*clusterv1.MachineSet{&request.Current.MachineSet, &request.Desired.MachineSet} {
		set.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "workers"}
		set.Spec.Selector.MatchLabels = map[string]string{"of": "set"}
		set.Spec.Template.Labels = map[string]string{"of": "set"}
	}
	patches, err := i.connect(t).CanUpdateMachineSet(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	want := cover.Patches{Machine: cover.Patch{Type: cover.JSONMergePatch, Data: []byte(`{"spec":{"template":{"spec":{"version":"v1.32.1"}}}}`)}}
	if diff := cmp.Diff(want, patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	offered := i.asked()[0]
	if diff := cmp.Diff(names("m-0", "m-1"), offered.Machines); diff != "" {
		t.Errorf("the machines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(names("m-0", "m-1", "m-2"), offered.Group); diff != "" {
		t.Errorf("the group (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(updatesv1.Owner{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "ns", Name: "workers"}, offered.Owner); diff != "" {
		t.Errorf("the owner (-want +got):\n%s", diff)
	}
	var got clusterv1.Machine
	if err := json.Unmarshal(offered.Desired.Machine.Raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "Machine" || got.Labels["of"] != "set" || got.Spec.Version != porttest.UpdaterTo || got.Name != "" {
		t.Errorf("the desired machine is %s", offered.Desired.Machine.Raw)
	}
	if want := `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"DevMachine","metadata":{"namespace":"ns"},"spec":{"image":"base"}}`; want != string(offered.Current.InfrastructureMachine.Raw) {
		t.Errorf("the current infrastructure machine is %s, want %s", offered.Current.InfrastructureMachine.Raw, want)
	}
}

func TestAnswersToAnOffer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body     string
		declined string
		class    updaters.Class
	}{
		"declined":           {response(false, "no\npower"), "no power", ""},
		"declined, no word":  {response(false, ""), "it gave no reason", ""},
		"no JSON":            {"yes", "", updaters.Nonsense},
		"empty":              {"", "", updaters.Nonsense},
		"no type":            {`{"accepted":true}`, "", updaters.Nonsense},
		"another version":    {strings.Replace(response(true, ""), "v1alpha1", "v1alpha0", 1), "", updaters.Nonsense},
		"accepted is a word": {strings.Replace(response(true, ""), "true", `"true"`, 1), "", updaters.Nonsense},
	} {
		i := newImplementer(t)
		i.says(tt.body)
		u := i.connect(t)
		patches, err := u.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
		if diff := cmp.Diff(cover.Patches{}, patches); diff != "" {
			t.Errorf("%s: it covers\n%s", name, diff)
		}
		got := u.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a"))
		if tt.declined != "" {
			declined, ok := errors.AsType[*handover.DeclinedError](err)
			if !ok || !declined.Declined() || declined.Reason != tt.declined {
				t.Errorf("%s: the error is %v", name, err)
			}
			if got.Outcome != inplace.Fails || !strings.Contains(got.Message, tt.declined) {
				t.Errorf("%s: at the start the answer is %+v", name, got)
			}
			if err := u.Check(t.Context()); err != nil {
				t.Errorf("%s: Check: %v", name, err)
			}
			continue
		}
		if failure, ok := errors.AsType[*updaters.Error](err); !ok || failure.Class != tt.class {
			t.Errorf("%s: the error is %v", name, err)
		}
		if got.Outcome != inplace.Unknown || got.Message == "" {
			t.Errorf("%s: at the start the answer is %+v", name, got)
		}
		if err := u.Check(t.Context()); err == nil {
			t.Errorf("%s: Check was content", name)
		}
	}
}

func TestNothingToDoIsNotOffered(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	if _, err := i.connect(t).CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterTo, porttest.UpdaterTo)); err != nil || len(i.asked()) > 0 {
		t.Errorf("the error is %v, it was asked %+v", err, i.asked())
	}
}

// TestTooManyFieldsAreNotOffered: where only the spec stands for the fields that differ, nobody can be
// asked for them.
func TestTooManyFieldsAreNotOffered(t *testing.T) {
	t.Parallel()
	for fields, want := range map[int]string{
		cover.MaxPointers:     "",
		cover.MaxPointers + 1: "more than 1024 fields of the BootstrapConfig differ",
	} {
		i := newImplementer(t)
		request := porttest.CanUpdateMachine(machine, porttest.UpdaterTo, porttest.UpdaterTo)
		for n := range fields {
			setField(t, request.Desired.BootstrapConfig, "x", "spec", fmt.Sprint("field", n))
		}
		_, err := i.connect(t).CanUpdateMachine(t.Context(), request)
		if isRefused := err != nil && strings.Contains(err.Error(), want+", which is too many"); isRefused != (want != "") {
			t.Errorf("%d fields: %v", fields, err)
		}
		if asked := len(i.asked()); (asked == 0) != (want != "") {
			t.Errorf("%d fields: %d offers", fields, asked)
		}
	}
}

// ask asks for an update, of one operation id.
func ask(t *testing.T, u *handover.Updater) inplace.Answer {
	t.Helper()
	return u.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "op:2"))
}

func TestStartIsSentOnce(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	u := i.connect(t)
	for range 3 {
		if got := ask(t, u); got.Outcome != inplace.InProgress || got.RetryAfter != 5*time.Second {
			t.Errorf("the answer is %+v", got)
		}
	}
	if got := i.asked(); len(got) != 1 || got[0].Phase != updatesv1.Start || got[0].OperationID != "op:2" || got[0].Current != nil || len(got[0].Machines) != 1 {
		t.Errorf("it was asked %+v", got)
	}
	// A restart forgets, and asks again.
	if ask(t, i.connect(t)); len(i.asked()) != 2 {
		t.Errorf("after a restart it was asked %d times", len(i.asked()))
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		updated, failed string
		want            inplace.Answer
	}{
		{"", "", inplace.Answer{Outcome: inplace.InProgress, Message: "handed over", RetryAfter: 5 * time.Second}},
		{"op:1", "op:1: no disk", inplace.Answer{Outcome: inplace.InProgress, Message: "handed over", RetryAfter: 5 * time.Second}},
		{"op:2", "", inplace.Answer{Outcome: inplace.Finishes, Message: "marked as updated"}},
		{"op:1", "op:2: no disk: full", inplace.Answer{Outcome: inplace.Fails, Message: "no disk: full"}},
		{"", "op:2:no\x1bdisk", inplace.Answer{Outcome: inplace.Fails, Message: "no disk"}},
		{"", "op:2", inplace.Answer{Outcome: inplace.Fails, Message: "the updater gave no reason"}},
		{"", "op:22: no disk", inplace.Answer{Outcome: inplace.InProgress, Message: "handed over", RetryAfter: 5 * time.Second}},
	} {
		i := newImplementer(t)
		i.mark(v1alpha1.UpdatedAnnotation, tt.updated)
		i.mark(v1alpha1.UpdateFailedAnnotation, tt.failed)
		if diff := cmp.Diff(tt.want, ask(t, i.connect(t))); diff != "" {
			t.Errorf("updated %q, failed %q (-want +got):\n%s", tt.updated, tt.failed, diff)
		}
	}
}

func TestMachineCannotBeRead(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	i.broken = errors.New("no connection")
	if got := ask(t, i.connect(t)); got.Outcome != inplace.Unknown || !strings.Contains(got.Message, "no connection") || len(i.asked()) > 0 {
		t.Errorf("the answer is %+v", got)
	}
}

func TestImplementerAway(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	u := i.connect(t)
	i.server.Close()
	if got := ask(t, u); got.Outcome != inplace.Unknown || !strings.Contains(got.Message, "cannot be reached") {
		t.Errorf("the answer is %+v", got)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	machines := func(context.Context, string, map[string]string) ([]metav1.PartialObjectMetadata, error) {
		return nil, nil
	}
	annotations := func(context.Context, types.NamespacedName) (map[string]string, error) { return nil, nil }
	at := func(url string) updaters.ClientOptions { return updaters.ClientOptions{URL: url} }
	for name, o := range map[string]handover.Options{
		"no lister": {ClientOptions: at("https://127.0.0.1"), MachineAnnotations: annotations},
		"no reader": {ClientOptions: at("https://127.0.0.1"), Machines: machines},
		"http":      {ClientOptions: at("http://127.0.0.1"), Machines: machines, MachineAnnotations: annotations},
	} {
		if _, err := handover.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
