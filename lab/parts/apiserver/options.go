package main

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
)

// options are what differs from one development cluster to the next; everything else is fixed in apiServerArgs.
type options struct {
	dataDir        string
	bindAddress    net.IP
	securePort     uint16
	clientCA       string
	tlsCert        string
	tlsKey         string
	serviceAccount string
	kubeconfig     string
	admission      string
	auditPolicy    string
	auditLog       string
	verbosity      int
}

// parseOptions has a flag set of its own: the libraries in this binary register flags of the same names globally.
func parseOptions(args []string) (options, error) {
	var o options
	fs := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	fs.StringVar(&o.dataDir, "data-dir", "", "existing directory for etcd's data and socket; must be private to the user")
	fs.IPVar(&o.bindAddress, "bind-address", net.IPv4(127, 0, 0, 1), "address to serve on")
	fs.Uint16Var(&o.securePort, "secure-port", 6443, "port to serve on")
	fs.StringVar(&o.clientCA, "client-ca-file", "", "absolute path of the CA that signs client certificates")
	fs.StringVar(&o.tlsCert, "tls-cert-file", "", "absolute path of the serving certificate")
	fs.StringVar(&o.tlsKey, "tls-private-key-file", "", "absolute path of the serving certificate's key")
	fs.StringVar(&o.serviceAccount, "service-account-key-file", "", "absolute path of the key that signs service account tokens")
	fs.StringVar(&o.kubeconfig, "controllers-kubeconfig", "", "absolute path of the kubeconfig for the garbage collector and the namespace controller")
	fs.StringVar(&o.admission, "admission-control-config-file", "", "absolute path of an AdmissionConfiguration")
	fs.StringVar(&o.auditPolicy, "audit-policy-file", "", "absolute path of an audit Policy")
	fs.StringVar(&o.auditLog, "audit-log-path", "", "absolute path of the file that requests of the audit policy are recorded in")
	fs.IntVarP(&o.verbosity, "v", "v", 1, "log level")
	if err := fs.Parse(args); err != nil {
		return options{}, fmt.Errorf("parsing flags: %w", err)
	}
	for _, name := range []string{"data-dir", "client-ca-file", "tls-cert-file", "tls-private-key-file", "service-account-key-file", "controllers-kubeconfig"} {
		if !fs.Changed(name) {
			return options{}, fmt.Errorf("flag --%s is required", name)
		}
	}
	return o, nil
}

// apiServerArgs is the command line of kube-apiserver.
func (o options) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + etcdEndpoint,
		"--bind-address=" + o.bindAddress.String(),
		"--advertise-address=" + o.advertiseAddress().String(),
		"--secure-port=" + strconv.Itoa(int(o.securePort)),
		"--client-ca-file=" + o.clientCA,
		"--tls-cert-file=" + o.tlsCert,
		"--tls-private-key-file=" + o.tlsKey,
		"--service-account-key-file=" + o.serviceAccount,
		"--service-account-signing-key-file=" + o.serviceAccount,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--anonymous-auth=false",
		// Nothing here runs pods, so nothing makes the service accounts that this plugin would demand.
		"--disable-admission-plugins=ServiceAccount",
		// The reconciler of the "kubernetes" endpoints refuses loopback addresses, the only ones of a private network namespace.
		"--endpoint-reconciler-type=none",
		// One user's cluster on one machine: a queue in front of it only adds latency.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1000",
		"--profiling=false",
		"--v=" + strconv.Itoa(o.verbosity),
	}
	if o.admission != "" {
		args = append(args, "--admission-control-config-file="+o.admission)
	}
	if o.auditPolicy != "" {
		args = append(args, "--audit-policy-file="+o.auditPolicy, "--audit-log-path="+o.auditLog)
	}
	return args
}

// advertiseAddress is never unspecified: kube-apiserver would look for an interface with a default route, and there may be none.
func (o options) advertiseAddress() net.IP {
	if o.bindAddress.IsUnspecified() {
		return net.IPv4(127, 0, 0, 1)
	}
	return o.bindAddress
}
