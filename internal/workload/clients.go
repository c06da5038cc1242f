package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/peer"
	"github.com/windlass-dev/windlass/internal/text"
)

// clients gives clients of workload clusters. It is safe for concurrent use.
type clients interface {
	// Config reads the kubeconfig of a cluster as it is now. It does not connect.
	Config(ctx context.Context, cluster types.NamespacedName) (*rest.Config, error)
	// Client returns a client that reads live. It does not tell whether the cluster can be reached, unless that failed just now.
	Client(ctx context.Context, cluster types.NamespacedName) (*connection, error)
	// Failed tells that a request of a client failed, so that one whose connection or credentials are bad is not used again. ctx is
	// the one that the request was made with.
	Failed(ctx context.Context, cluster types.NamespacedName, used client.Client, err error)
}

// connection is a client of a workload cluster, and what is below it, for paths that are no resources, and for streams.
type connection struct {
	client.Client

	host string
	// config is bounded: every client made from it refuses redirects and long answers.
	config *rest.Config
	// metrics reads /metrics, which is longer than answers about objects and is never held in memory.
	metrics *http.Client
	// upgrades speaks HTTP/1.1, whose connections can become ones of another protocol. It bounds the time until they do.
	upgrades *http.Client
}

const (
	// clientLifetime is how long a client is used before its kubeconfig is read again.
	clientLifetime = 10 * time.Minute
	// failureLifetime is how long a cluster that was not reached is not tried again. All its machines are asked about every few
	// seconds, in hooks that Cluster API waits for, and each request would take requestTimeout.
	failureLifetime = 20 * time.Second
	// requestTimeout bounds one request to a workload cluster. A hook of Cluster API, in which requests are made, has ten seconds
	// unless configured otherwise.
	requestTimeout = 5 * time.Second
	// Limits of requests to one cluster. The rate is that of Cluster API's clustercache. The burst lets a gate read the 30,000
	// Nodes of the largest clusters within one hook: see TestLargestCluster.
	requestsPerSecond, requestBurst = 20, 150
)

// kubeconfigClients connects by the Secret <cluster>-kubeconfig of each cluster.
//
// What the Secret holds never reaches an error: parsers quote what they cannot read.
type kubeconfigClients struct {
	secrets client.Reader
	now     func() time.Time

	entries keyed.Memory[types.NamespacedName, clientEntry]
}

type clientEntry struct {
	client *connection
	// failure says, where client is nil, why the cluster was not reached.
	failure string
}

func newKubeconfigClients(secrets client.Reader, now func() time.Time) *kubeconfigClients {
	return &kubeconfigClients{secrets: secrets, now: now}
}

// Client implements clients. Two callers may make a client of the same cluster at once; the later one is kept. A cluster that
// was not reached less than failureLifetime ago is an error at once, in the words of that failure.
func (k *kubeconfigClients) Client(ctx context.Context, cluster types.NamespacedName) (*connection, error) {
	if known, ok := k.entries.Get(cluster, k.now()); ok {
		if known.client == nil {
			return nil, errors.New(known.failure)
		}
		return known.client, nil
	}
	made, err := k.connect(ctx, cluster)
	if err != nil {
		return nil, err
	}
	k.entries.Put(cluster, clientEntry{client: made}, k.now(), clientLifetime)
	return made, nil
}

// Failed implements clients. Only a request that the cluster did not answer makes the cluster unreachable for failureLifetime.
// Refused credentials are read again with the next request, which costs little. A request that this process throttled tells
// nothing about the cluster, and neither does one whose caller had no time left.
func (k *kubeconfigClients) Failed(ctx context.Context, cluster types.NamespacedName, used client.Client, err error) {
	answered := isAnswer(err)
	if err == nil || errors.Is(err, context.Canceled) || isThrottled(err) || answered && !apierrors.IsUnauthorized(err) {
		return
	}
	k.entries.Edit(cluster, k.now(), func(known clientEntry, _ bool) (clientEntry, time.Duration, bool) {
		switch {
		case client.Client(known.client) != used:
			return known, 0, false
		case answered || outOfTime(ctx):
			return clientEntry{}, 0, true
		}
		return clientEntry{failure: describe(err)}, failureLifetime, true
	})
}

func secretOf(cluster types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{
		Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig),
	}
}

// Config implements clients.
func (k *kubeconfigClients) Config(ctx context.Context, cluster types.NamespacedName) (*rest.Config, error) {
	name := secretOf(cluster)
	var kubeconfig corev1.Secret
	if err := k.secrets.Get(ctx, name, &kubeconfig); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	data, ok := kubeconfig.Data[secret.KubeconfigDataName]
	if !ok {
		return nil, fmt.Errorf("the Secret %s has no key %q", name, secret.KubeconfigDataName)
	}
	config, err := parseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig under %q of Secret %s: %w", secret.KubeconfigDataName, name, err)
	}
	return config, nil
}

func (k *kubeconfigClients) connect(ctx context.Context, cluster types.NamespacedName) (*connection, error) {
	config, err := k.Config(ctx, cluster)
	if err != nil {
		return nil, err
	}
	made, err := newConnection(config, tenant(cluster.Namespace))
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig of Secret %s cannot be used: check its certificates and keys "+
			"(the error may quote them, so it is not shown)", secretOf(cluster))
	}
	return made, nil
}

// newConnection makes the clients of a cluster. It does not connect.
func newConnection(config *rest.Config, of tenant) (*connection, error) {
	made := &connection{host: config.Host, config: objectConfig(config)}
	var err error
	if made.Client, err = newClient(made.config, of); err != nil {
		return nil, err
	}
	streams, err := peer.NewAPIServerTransport(upgradeConfig(made.config), limits())
	if err != nil {
		return nil, err
	}
	made.upgrades = peer.NewUpgradeClient(streams, limits())
	longer := peer.Limits{Timeout: requestTimeout, BodyBytes: maxMetricsBytes}
	metrics, err := peer.NewAPIServerTransport(peer.Bound(limitConfig(config), longer), longer)
	if err != nil {
		return nil, err
	}
	made.metrics = peer.NewClient(metrics, longer)
	return made, nil
}

// objectConfig returns the configuration of all clients that read and write objects.
func objectConfig(config *rest.Config) *rest.Config {
	bounded := peer.Bound(limitConfig(config), limits())
	bounded.Wrap(func(next http.RoundTripper) http.RoundTripper { return answers{next} })
	return bounded
}

// newClient returns a client for objects from an objectConfig.
func newClient(bounded *rest.Config, of tenant) (client.Client, error) {
	transport, err := peer.NewAPIServerTransport(bounded, limits())
	if err != nil {
		return nil, err
	}
	made, err := client.New(bounded, client.Options{
		HTTPClient: peer.NewClient(transport, limits()), Scheme: remoteScheme(), Mapper: remoteMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return checked{made, of}, nil
}

// errUnreadable stands for all errors of parsing a kubeconfig.
var errUnreadable = errors.New("it cannot be read (the error may quote credentials, so it is not shown)")

func parseKubeconfig(data []byte) (*rest.Config, error) {
	kubeconfig, err := clientcmd.Load(data)
	if err != nil {
		return nil, errUnreadable
	}
	if err := cmp.Or(checkKubeconfig(kubeconfig), checkContext(kubeconfig)); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, errUnreadable
	}
	return config, nil
}

// checkContext refuses a kubeconfig that does not name the cluster to ask.
func checkContext(kubeconfig *clientcmdapi.Config) error {
	current := kubeconfig.Contexts[kubeconfig.CurrentContext]
	switch {
	case len(kubeconfig.Clusters) == 0:
		return errors.New("it has no cluster. Fix: put one with a server into it")
	case kubeconfig.CurrentContext == "":
		return errors.New("it has no current context. Fix: set current-context")
	case current == nil:
		return errors.New("its current-context is none of its contexts. Fix: set it to one of them")
	case kubeconfig.Clusters[current.Cluster] == nil:
		return errors.New("its current context names a cluster that it does not have. " +
			"Fix: correct the context's cluster")
	default:
		return nil
	}
}

// checkKubeconfig refuses a kubeconfig that would run programs, read files of this machine, have others connect for us, or
// trust whoever answers: who wrote it may be somebody who can write Secrets in one namespace.
func checkKubeconfig(kubeconfig *clientcmdapi.Config) error {
	usesFiles := false
	for _, user := range kubeconfig.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return errors.New("it runs a program to log in, which is not supported. Fix: put a token or a client certificate into it")
		}
		usesFiles = usesFiles || user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != ""
	}
	for _, cluster := range kubeconfig.Clusters {
		if err := checkServer(cluster); err != nil {
			return err
		}
		usesFiles = usesFiles || cluster.CertificateAuthority != ""
	}
	if usesFiles {
		return errors.New("it refers to files, which are not on this machine. Fix: put their contents into it (`kubectl config view --flatten`)")
	}
	return nil
}

func checkServer(cluster *clientcmdapi.Cluster) error {
	switch {
	case cluster.ProxyURL != "":
		return errors.New("it has a proxy-url, which is not supported: it could name any address that can be reached from here; take it out, and let `server` be reachable directly")
	case cluster.InsecureSkipTLSVerify:
		return errors.New("it has insecure-skip-tls-verify, and the server is always verified; take it out, and put the CA's certificate into certificate-authority-data")
	case !strings.HasPrefix(cluster.Server, "https://"):
		return errors.New("its server is not an https:// URL; credentials are sent over TLS only, so change it to one")
	default:
		return nil
	}
}

// upgradeConfig is the configuration for connections that become ones of another protocol.
func upgradeConfig(config *rest.Config) *rest.Config {
	upgrades := rest.CopyConfig(config)
	upgrades.NextProtos = []string{"http/1.1"}
	// A limit would end what the connection has become, too; its user has a context for that.
	upgrades.Timeout = 0
	return upgrades
}

// limitConfig returns a copy that sends no more requests than the cluster should get, and gets JSON, whose structure answers checks.
func limitConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = "windlass"
	config.RateLimiter = newLimiter()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// Warnings of an API server are about the objects of others.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config
}

// remoteScheme knows the kinds that a drain needs.
var remoteScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(policyv1.AddToScheme(scheme))
	return scheme
})

// remoteMapper knows their resources, which are the same in every cluster: discovery would be some requests per cluster, and a
// client that breaks with an aggregated API that is down.
var remoteMapper = sync.OnceValue(func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), meta.RESTScopeNamespace)
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	return mapper
})

// describe words an error of checked. What it says of a connection is cut down to what stays the same from one attempt to the next
// (the port of our own end does not), since the words end up in conditions.
func describe(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return strings.Replace(err.Error(), request.Error(), describeConnection(request), 1)
	}
	return err.Error()
}

func describeConnection(failed *url.Error) string {
	host := "the API server"
	if parsed, err := url.Parse(failed.URL); err == nil {
		host = parsed.Host
	}
	if failed.Timeout() {
		return "no answer from " + host + " in time"
	}
	if connection, ok := errors.AsType[*net.OpError](failed); ok {
		return fmt.Sprintf("connecting to %s: %s: %v", host, connection.Op, connection.Err)
	}
	return fmt.Sprintf("connecting to %s: %s", host, text.Bound(failed.Err.Error(), maxShownBytes))
}

// isBroken reports whether a connection ended within an answer.
func isBroken(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return true
	}
	// The types of HTTP/2's errors are not exported.
	return strings.Contains(err.Error(), "stream error") || strings.Contains(err.Error(), "http2: ")
}
