package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/test/loopback"
)

// Updater is an updater in the test: a runtime extension that covers the version of machines and remembers what it was asked.
type Updater struct {
	// URL is where it serves. Authority signed its certificate.
	URL       string
	Authority *loopback.Authority
	// Update answers UpdateMachine. Nil answers that the machine is done. It may block. Set it before the first call.
	Update func(*runtimehooksv1.UpdateMachineRequest) Answer

	t        *testing.T
	mu       sync.Mutex
	requests []Request
}

// Request is one that an updater received.
type Request struct {
	// Hook is its name, such as UpdateMachine.
	Hook string
	Body []byte
}

// NewUpdater starts an updater that ends with the test.
func NewUpdater(t *testing.T) *Updater {
	t.Helper()
	u := &Updater{t: t, Authority: loopback.NewAuthority(t, "updater")}
	server := httptest.NewUnstartedServer(u)
	server.TLS = u.Authority.Server(t)
	server.StartTLS()
	t.Cleanup(server.Close)
	u.URL = server.URL
	return u
}

// Object is an Updater that leads to it.
func (u *Updater) Object(name string) *v1alpha1.Updater {
	return &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UpdaterSpec{Remote: &v1alpha1.RemoteUpdater{
		URL: u.URL, CABundle: u.Authority.PEM, TimeoutSeconds: 20, FailurePolicy: v1alpha1.UpdaterFail,
	}}}
}

// Requests returns the requests for a hook so far, oldest first.
func (u *Updater) Requests(hook string) []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(u.requests), func(r Request) bool { return r.Hook != hook })
}

// ServeHTTP answers a hook.
func (u *Updater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The caller is gone.
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var response any
	switch parts[min(len(parts), 3)-1] {
	case "discovery":
		response = discovery()
	case "canupdatemachine":
		u.remember(CanUpdateMachine.Hook, body)
		request := runtimehooksv1.CanUpdateMachineRequest{}
		u.decode(body, &request)
		response = &runtimehooksv1.CanUpdateMachineResponse{
			CommonResponse: succeeded(), MachinePatch: versionPatch("/spec/version", request.Desired.Machine.Spec.Version),
		}
	case "canupdatemachineset":
		u.remember(CanUpdateMachineSet.Hook, body)
		request := runtimehooksv1.CanUpdateMachineSetRequest{}
		u.decode(body, &request)
		response = &runtimehooksv1.CanUpdateMachineSetResponse{
			CommonResponse: succeeded(), MachineSetPatch: versionPatch("/spec/template/spec/version", request.Desired.MachineSet.Spec.Template.Spec.Version),
		}
	case "updatemachine":
		u.remember(UpdateMachine.Hook, body)
		request := &runtimehooksv1.UpdateMachineRequest{}
		u.decode(body, request)
		answer := Answer{Status: runtimehooksv1.ResponseStatusSuccess}
		if u.Update != nil {
			answer = u.Update(request)
		}
		response = answer
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response) // The caller may be gone.
}

func (u *Updater) remember(hook string, body []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests = append(u.requests, Request{Hook: hook, Body: body})
}

func (u *Updater) decode(body []byte, into any) {
	if err := json.Unmarshal(body, into); err != nil {
		u.t.Errorf("an updater received %s: %v", body, err)
	}
}

func discovery() *runtimehooksv1.DiscoveryResponse {
	response := &runtimehooksv1.DiscoveryResponse{CommonResponse: succeeded()}
	for _, hook := range []Hook{CanUpdateMachine, CanUpdateMachineSet, UpdateMachine} {
		response.Handlers = append(response.Handlers, runtimehooksv1.ExtensionHandler{
			Name: hook.Handler, RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: runtimehooksv1.GroupVersion.String(), Hook: hook.Hook},
		})
	}
	return response
}

func succeeded() runtimehooksv1.CommonResponse {
	return runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess}
}

func versionPatch(path, version string) runtimehooksv1.Patch {
	patch := fmt.Sprintf(`[{"op":"add","path":%q,"value":%q}]`, path, version)
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONPatchType, Patch: []byte(patch)}
}
