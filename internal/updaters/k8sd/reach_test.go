package k8sd_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
)

func newUpdater(t *testing.T, o k8sd.Options) *k8sd.Updater {
	t.Helper()
	u, err := k8sd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// otherCA is a CA that signed nothing of the world's.
func otherCA(t *testing.T) []byte {
	t.Helper()
	s, err := k8sdtest.New(k8sdtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.CABundle()
}

func TestTrust(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("00", 32)
	secret := types.NamespacedName{Namespace: machine.Namespace, Name: porttest.UpdaterCluster + "-k8sd"}
	fromSecret := func(data map[string][]byte) func(*world) {
		return func(w *world) {
			w.secrets[secret], w.config.TLS = data, v1alpha1.K8sdTLS{SecretName: "{cluster}-k8sd"}
		}
	}
	other := otherCA(t)
	for name, test := range map[string]struct {
		setUp   func(*world)
		outcome inplace.Outcome
		words   string
	}{
		"a CA":                  {setUp: func(*world) {}, outcome: inplace.InProgress},
		"another CA":            {setUp: func(w *world) { w.config.TLS.CABundle = other }, words: "certificate signed by unknown authority"},
		"a CA and a name":       {setUp: func(w *world) { w.config.TLS.ServerName = "node-m" }, outcome: inplace.InProgress},
		"a CA and another name": {setUp: func(w *world) { w.config.TLS.ServerName = "node-x" }, words: "not node-x"},
		"a host by name":        {setUp: func(w *world) { w.config.DirectHost = "localhost" }, outcome: inplace.InProgress},
		"fingerprints": {
			setUp:   func(w *world) { w.config.TLS = v1alpha1.K8sdTLS{Fingerprints: []string{zeros, w.server.Fingerprint()}} },
			outcome: inplace.InProgress,
		},
		"a fingerprint without colons": {
			setUp: func(w *world) {
				w.config.TLS = v1alpha1.K8sdTLS{Fingerprints: []string{strings.ToLower(strings.ReplaceAll(w.server.Fingerprint(), ":", ""))}}
			},
			outcome: inplace.InProgress,
		},
		"another fingerprint": {
			setUp: func(w *world) { w.config.TLS = v1alpha1.K8sdTLS{Fingerprints: []string{zeros}} }, words: "which is not among those that are trusted",
		},
		"nothing verified":    {setUp: func(w *world) { w.config.TLS = v1alpha1.K8sdTLS{InsecureSkipVerify: true} }, outcome: inplace.InProgress},
		"a Secret with a CA":  {setUp: func(w *world) { fromSecret(map[string][]byte{"ca.crt": w.server.CABundle()})(w) }, outcome: inplace.InProgress},
		"a Secret's wrong CA": {setUp: fromSecret(map[string][]byte{"ca.crt": other}), words: "certificate signed by unknown authority"},
		"a Secret with fingerprints": {
			setUp: func(w *world) {
				fromSecret(map[string][]byte{"fingerprint": []byte(zeros + "\n" + w.server.Fingerprint() + "\n")})(w)
			},
			outcome: inplace.InProgress,
		},
		"no Secret":          {setUp: func(w *world) { w.config.TLS = v1alpha1.K8sdTLS{SecretName: "a"} }, outcome: inplace.Fails, words: "there is no Secret default/a, which tells whom to trust as k8sd"},
		"an empty Secret":    {setUp: fromSecret(nil), outcome: inplace.Fails, words: "must hold either ca.crt or fingerprint"},
		"a Secret with both": {setUp: fromSecret(map[string][]byte{"ca.crt": other, "fingerprint": []byte(zeros)}), outcome: inplace.Fails, words: "must hold either ca.crt or fingerprint"},
		"a Secret's no CA":   {setUp: fromSecret(map[string][]byte{"ca.crt": []byte(token)}), outcome: inplace.Fails, words: "no certificate in PEM"},
		"a Secret's no pin":  {setUp: fromSecret(map[string][]byte{"fingerprint": []byte(token)}), outcome: inplace.Fails, words: "number 1 is no SHA-256 fingerprint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.setUp(w)
			begun := 0
			if test.outcome == inplace.InProgress {
				begun = 1
			}
			w.expect(t, w.ask(t, "a", newSnap), test.outcome, test.words, begun)
			// Whoever is not trusted has not been shown the token.
			if state, _ := w.server.Machine(machine.Name); begun == 0 && state.Requests > 0 {
				t.Error("the token was sent")
			}
		})
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: machine.Namespace, Name: porttest.UpdaterCluster + "-token"}
	for test, c := range map[string]struct {
		data  map[string][]byte
		words string
	}{
		"no Secret":   {words: "there is no Secret default/cluster-token, which tells the tokens of nodes"},
		"no key":      {data: map[string][]byte{"node-token-x": []byte(token)}, words: "has no key node-token-m"},
		"empty":       {data: map[string][]byte{"node-token-m": []byte("\n")}, words: "has no key node-token-m"},
		"two lines":   {data: map[string][]byte{"node-token-m": []byte(token + "\r\nHost: x")}, words: "is no token"},
		"another one": {data: map[string][]byte{"node-token-m": []byte("other")}, words: "does not accept the node's token: invalid token"},
	} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			delete(w.secrets, name)
			if c.data != nil {
				w.secrets[name] = c.data
			}
			w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, c.words, 0)
		})
	}
	t.Run("lost while a change runs", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "", 1)
		kept := w.secrets[name]
		delete(w.secrets, name)
		w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "there is no Secret", 1)
		w.secrets[name] = map[string][]byte{"node-token-m": []byte("other")}
		w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "does not accept the node's token", 1)
		w.secrets[name] = kept
		w.pass(takes)
		w.expect(t, w.ask(t, "a", newSnap), inplace.Finishes, "", 1)
	})
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Reach, w.config.Port = v1alpha1.K8sdPortForward, 0
	var problem error
	o := w.options()
	o.Forward = func(ctx context.Context, cluster types.NamespacedName, node string) (net.Conn, error) {
		if cluster.String() != "default/cluster" || node != "node-m" {
			t.Errorf("a port-forward to node %q of cluster %s", node, cluster)
		}
		if problem != nil {
			return nil, problem
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", w.server.Address())
	}
	u, request := newUpdater(t, o), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")
	// The certificate is for the node's name.
	w.expect(t, u.UpdateMachine(t.Context(), request), inplace.InProgress, "change 1 has begun", 1)
	problem = errors.New("node node-m has no pod")
	w.expect(t, u.UpdateMachine(t.Context(), request), inplace.Unknown, "reaching k8sd of node node-m: node node-m has no pod", 1)
	w.machines[machine].Node = ""
	w.expect(t, u.UpdateMachine(t.Context(), request), inplace.Unknown, "has no node yet", 1)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.machines[machine].Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineHostName, Address: "x.invalid"}, {Type: clusterv1.MachineExternalIP, Address: "127.0.0.1"}}
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "", 1)
	w.machines[machine].Addresses = w.machines[machine].Addresses[:1]
	w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "has no address", 1)
	w.config.DirectHost = "127.0.0.1"
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "Doing", 1)
}

// What is no k8sd at all.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  http.HandlerFunc
		outcome inplace.Outcome
		words   string
	}{
		"a redirect": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			},
			outcome: inplace.Fails, words: "k8sd answered 307",
		},
		"not found":  {answer: http.NotFound, outcome: inplace.Fails, words: "k8sd answered 404"},
		"a gateway":  {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, words: "whether the refresh has begun is not known"},
		"no content": {answer: func(http.ResponseWriter, *http.Request) {}, words: "not one of k8sd"},
		"no result":  {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"type":"sync"}`) }, words: "not one of k8sd"},
		"an endless answer": {
			answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 1<<20+1)) }, words: "longer than 1048576 bytes",
		},
		"an error in an answer that is well": {
			answer:  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"error":"no\nsnap"}`) },
			outcome: inplace.Fails, words: "k8sd answered: no snap",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, asked := newWorld(t), 0
			server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				asked++
				test.answer(rw, r)
			}))
			t.Cleanup(server.Close)
			o := w.options()
			o.Config.Reach, o.Config.TLS = v1alpha1.K8sdPortForward, v1alpha1.K8sdTLS{InsecureSkipVerify: true}
			o.Forward = func(ctx context.Context, _ types.NamespacedName, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
			}
			got := newUpdater(t, o).UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a"))
			w.expect(t, got, test.outcome, test.words, 0)
			if asked != 1 {
				t.Errorf("it was asked %d times", asked)
			}
		})
	}
}

func TestWithoutChannelNothingIsCovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Channel = ""
	u := w.updater(t)
	one, err := u.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
	if err != nil {
		t.Fatal(err)
	}
	many, err := u.CanUpdateMachineSet(t.Context(), porttest.CanUpdateMachineSet(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []cover.Patches{one, many} {
		if p.Machine.Data != nil || p.Infrastructure.Data != nil || p.Bootstrap.Data != nil {
			t.Errorf("it covers %+v", p)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		edit func(*k8sd.Options)
		want string
	}{
		"no machines":    {edit: func(o *k8sd.Options) { o.Machines = nil }, want: "it needs Machines, Secret and Kubelet"},
		"no forward":     {edit: func(o *k8sd.Options) { o.Config.Reach = "" }, want: "it needs Forward"},
		"a reach":        {edit: func(o *k8sd.Options) { o.Config.Reach = "Magic" }, want: `reach "Magic" is unknown. Fix: use PortForward or Direct`},
		"nobody trusted": {edit: func(o *k8sd.Options) { o.Config.TLS = v1alpha1.K8sdTLS{} }, want: "tls: set exactly one of"},
		"two trusted":    {edit: func(o *k8sd.Options) { o.Config.TLS.InsecureSkipVerify = true }, want: "tls: set exactly one of"},
		"a bundle":       {edit: func(o *k8sd.Options) { o.Config.TLS.CABundle = []byte("x") }, want: "tls: caBundle: it holds no certificate"},
		"a fingerprint":  {edit: func(o *k8sd.Options) { o.Config.TLS = v1alpha1.K8sdTLS{Fingerprints: []string{"00"}} }, want: "tls: fingerprints: number 1 is no SHA-256"},
	} {
		o := w.options()
		test.edit(&o)
		if _, err := k8sd.New(o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
