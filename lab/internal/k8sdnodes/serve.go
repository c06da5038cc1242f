package k8sdnodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/internal/updaterserver"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/internal/simulated"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Options say what Serve serves.
type Options struct {
	// Config reaches the management cluster, from where its simulated nodes are reached too.
	Config *rest.Config
	// Address is the loopback address of k8sd, and Control that of /stats and /behaviour.
	Address, Control string
	// Duration is how long a refresh takes.
	Duration time.Duration
}

// Serve plays k8sd on the nodes of all Machines of a management cluster, until ctx is cancelled. It gives each Machine a node token, in the Secret that
// the updater of kind K8sd reads, registers itself as Updater k8sd, and sets the kubelet version of simulated nodes when a refresh ends. What it did is
// forgotten with the process; tokens stay.
func Serve(ctx context.Context, o Options) error {
	mgr, err := newManager(o.Config)
	if err != nil {
		return err
	}
	live, err := client.New(o.Config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("connecting to the management cluster: %w", err)
	}
	s := &standIn{live: live, nodes: simulated.NewInMemory(live)}
	if s.server, err = k8sdtest.New(k8sdtest.Options{Address: o.Address, Duration: o.Duration, Apply: s.refreshed}); err != nil {
		return err
	}
	defer s.server.Close()
	err = ctrl.NewControllerManagedBy(mgr).Named("k8sd").For(&clusterv1.Machine{}).Complete(s)
	if err != nil {
		return fmt.Errorf("adding the controller of node tokens: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return s.serveControl(ctx, mgr.GetClient(), o.Control) }))
	if err != nil {
		return fmt.Errorf("adding the control listener: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("serving k8sd: %w", err)
	}
	return nil
}

func newManager(config *rest.Config) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return mgr, nil
}

// standIn is k8sd on all nodes.
type standIn struct {
	server *k8sdtest.Server
	// live reads and writes without a cache: Secrets should not lie in one.
	live  client.Client
	nodes simulated.InMemory
	// turn serialises the writers of Secrets.
	turn sync.Mutex
}

// serveControl prepares what is there already, and then serves: whoever finds the listener open finds k8sd ready for all Machines.
func (s *standIn) serveControl(ctx context.Context, cached client.Reader, address string) error {
	var machines clusterv1.MachineList
	if err := cached.List(ctx, &machines); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		if _, err := s.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])}); err != nil {
			return err
		}
	}
	if err := s.register(ctx); err != nil {
		return err
	}
	listener, err := updaterserver.ListenLocal(ctx, address)
	if err != nil {
		return err
	}
	return s.control(ctx, listener)
}

// register registers this process as Updater k8sd. Its certificate is a new one after every start.
func (s *standIn) register(ctx context.Context) error {
	return setup.Apply(ctx, s.live, &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: setup.K8sdName},
		Spec: v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{
			Kind: v1alpha1.K8sdUpdater,
			K8sd: &v1alpha1.K8sdConfig{
				Reach: v1alpha1.K8sdDirect, DirectHost: "127.0.0.1", Port: s.server.Port(), TLS: v1alpha1.K8sdTLS{CABundle: s.server.CABundle()},
			},
		}},
	})
}

// Reconcile implements reconcile.Reconciler: it gives a Machine its token, and takes it away with the Machine.
func (s *standIn) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	name := request.String()
	machine := &clusterv1.Machine{}
	err := s.live.Get(ctx, request.NamespacedName, machine)
	switch _, known := s.server.Machine(name); {
	case apierrors.IsNotFound(err):
		s.server.RemoveMachine(name)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading Machine %s: %w", name, err)
	case known:
		return ctrl.Result{}, nil
	}
	token, err := s.ensureToken(ctx, machine)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("giving Machine %s a token: %w", name, err)
	}
	return ctrl.Result{}, s.server.AddMachine(name, token, k8sdtest.Option{})
}

// ensureToken returns the token of a Machine's node; it makes one where there is none.
func (s *standIn) ensureToken(ctx context.Context, machine *clusterv1.Machine) (string, error) {
	cluster := &clusterv1.Cluster{}
	if err := s.live.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}, cluster); err != nil {
		return "", fmt.Errorf("reading Cluster %s: %w", machine.Spec.ClusterName, err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: cluster.Name + "-token", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}},
	}}
	key := "node-token-" + machine.Name
	err := s.live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if token := string(secret.Data[key]); err == nil && token != "" {
		return token, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading Secret %s: %w", secret.Name, err)
	}
	token := newToken()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[key] = []byte(token)
	write := func() error { return s.live.Update(ctx, secret) }
	if err != nil {
		write = func() error { return s.live.Create(ctx, secret) }
	}
	if err := write(); err != nil {
		return "", fmt.Errorf("writing Secret %s: %w", secret.Name, err)
	}
	return token, nil
}

func newToken() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // It never fails.
	return hex.EncodeToString(random)
}

// refreshed makes a refresh real: the node of the machine reports another kubelet version.
func (s *standIn) refreshed(ctx context.Context, name string, to k8sdtest.Option) error {
	key, err := parseKey(name)
	if err != nil {
		return err
	}
	machine := &clusterv1.Machine{}
	if err := s.live.Get(ctx, key, machine); err != nil {
		return fmt.Errorf("reading Machine %s: %w", name, err)
	}
	cluster, node := types.NamespacedName{Namespace: key.Namespace, Name: machine.Spec.ClusterName}, machine.Status.NodeRef.Name
	if node == "" {
		return errors.New("the Machine has no node")
	}
	read, err := s.nodes.Get(ctx, cluster, node)
	if err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	current, err := version.Parse(read.Status.NodeInfo.KubeletVersion)
	if err != nil {
		return fmt.Errorf("the version of the kubelet: %w", err)
	}
	kubelet, err := computeKubelet(current, to)
	if err != nil {
		return err
	}
	return s.nodes.SetKubelet(ctx, cluster, node, kubelet.String())
}
