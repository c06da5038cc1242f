package devplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Config describes a plane to [Start]. StateDir and AssetsDir are required; every other zero value is a sensible default.
type Config struct {
	// StateDir holds everything that the plane writes: certificates, etcd's data, logs, the kubeconfig. Start makes it, and
	// refuses one that is another user's, or that is not empty and not a plane's. Permissions of others are taken away. It stays
	// when the plane has ended, with the logs in it: see RemoveState.
	StateDir string
	// AssetsDir is where Build put its output.
	AssetsDir string
	// SupervisorPath is the windlass binary, which has the hidden command "dev supervise". Default: the running executable.
	SupervisorPath string
	// SupervisorArgs come before the state directory on the supervisor's command line. Default: "supervise".
	SupervisorArgs []string `json:",omitempty"`

	// BindAddress is where the API server listens inside the plane's network namespace. Default: 127.0.0.1.
	BindAddress netip.Addr
	// Port is the port on 127.0.0.1 of the user's namespace that leads to the API server. Default: any free one.
	Port uint16
	// CertificateNames are further DNS names and IP addresses for every serving certificate.
	CertificateNames []string `json:",omitempty"`
	// Veth connects the plane's network namespace to another one. Needs root and iproute2.
	Veth *Veth `json:",omitempty"`
	// Isolation says whether to run in namespaces of its own.
	Isolation Isolation

	// FeatureGates override DefaultFeatureGates, gate by gate. A manager is given those that it knows; a gate that no manager
	// knows is an error.
	FeatureGates map[string]bool `json:",omitempty"`
	// Without names stock managers that are not started, for planes that do without infrastructure, say. The CRDs of a manager
	// left out are installed all the same, its webhooks are not.
	Without []string `json:",omitempty"`
	// AdmissionConfig is the path of an AdmissionConfiguration for the API server, absolute; empty means
	// none. It can name the client certificate that webhooks are called with.
	AdmissionConfig string `json:",omitempty"`
	// Audit records the requests of ServiceAccounts, as [Plane.AuditLog] returns them.
	Audit bool `json:",omitempty"`
	// AuditAll records the requests of all others, too, those of the API server itself apart. It implies Audit.
	AuditAll bool `json:",omitempty"`
	// Children are started, in order, once the stock managers are healthy. Each must be ready before the next starts.
	Children []Child `json:",omitempty"`
	// LogLevel is the -v of the stock managers. Default: 2.
	LogLevel int
	// Restart is what happens when the API server, a stock manager, or a child that replaces one ends
	// without being asked to. The zero value suits tests: there a part that crashes is a finding.
	Restart RestartPolicy `json:",omitempty"`

	// Detached planes outlive the process that starts them.
	Detached bool
	// StartTimeout bounds Start. Default: DefaultStartTimeout.
	StartTimeout time.Duration
	// Progress, when set, is called with every step of Start. Calls do not overlap.
	Progress func(Event) `json:"-"`
}

// DefaultStartTimeout leaves room for a busy machine; an idle one needs less than a tenth of it.
const DefaultStartTimeout = 2 * time.Minute

// Names of the stock managers, as in Config.Without and in Status.
const (
	APIServer                  = "apiserver"
	CoreManager                = "capi-core"
	KubeadmBootstrapManager    = "capi-kubeadm-bootstrap"
	KubeadmControlPlaneManager = "capi-kubeadm-control-plane"
	InMemoryManager            = "capi-in-memory"
)

// StockManagers lists the managers of a plane in the order in which they are reported.
func StockManagers() []string {
	return []string{CoreManager, KubeadmBootstrapManager, KubeadmControlPlaneManager, InMemoryManager}
}

// DefaultFeatureGates are the gates of Cluster API that every plane has on.
func DefaultFeatureGates() map[string]bool {
	return map[string]bool{"ClusterTopology": true, "InPlaceUpdates": true, "MachinePool": true, "RuntimeSDK": true}
}

// Isolation is the use of Linux namespaces.
type Isolation string

const (
	// IsolationAuto uses namespaces where the system permits, and otherwise runs without and says so (Status.Isolated,
	// an Event). Without: ports are free ones of the user's namespace, except the in-memory provider's, which are fixed
	// (19000, and 20000 and up) and open on all interfaces; so there can be one such plane at a time.
	IsolationAuto Isolation = ""
	// IsolationRequired fails where namespaces are not permitted.
	IsolationRequired Isolation = "Required"
	// IsolationNone runs without.
	IsolationNone Isolation = "None"
)

// Veth is a pair of virtual interfaces: one end in the plane's network namespace, the other in Peer's. Both end with the plane.
type Veth struct {
	// Name and Address of the plane's end. Interface names have at most 15 bytes.
	Name    string
	Address netip.Prefix
	// PeerName and PeerAddress of the other end. Without an address the peer's owner configures it.
	PeerName    string
	PeerAddress netip.Prefix
	// PeerNamespace is a name as in "ip netns add", the path of a namespace file, or the id of a process in the namespace.
	PeerNamespace string
}

// Child is a process that the supervisor runs inside the plane beside the stock parts.
//
// In Args, Env and Ready.URL these references are replaced, as in a Pod's args: $(KUBECONFIG), a kubeconfig for the API server as seen from
// inside, with full rights, or those of ServiceAccount; $(CERT_DIR), the directory with tls.crt and tls.key (see ServingCertificate); $(CA_FILE), the CA of
// all serving certificates; $(PORT_x), the port x of Ports; $(WEBHOOK_PORT), $(WEBHOOK_CERT_DIR) and $(HEALTH_PORT), see Replaces
// and StockArgs. An unknown reference is an error.
type Child struct {
	// Name is unique in the plane: lower case letters, digits and dashes.
	Name string
	// Path of the binary; absolute.
	Path string
	Args []string `json:",omitempty"`
	// Dir is the working directory. Default: the state directory.
	Dir string `json:",omitempty"`
	// Replaces names the stock manager whose place the child takes: that one is not started (in a plane that runs, it must be
	// stopped first), and its webhooks are the child's to serve, at $(WEBHOOK_PORT) with the certificate in $(WEBHOOK_CERT_DIR).
	Replaces string `json:",omitempty"`
	// StockArgs appends the arguments of the manager that Replaces names, for a child that has the same flags: ports, certificates,
	// kubeconfig, feature gates and log level are then the same. It is healthy where that would be, at $(HEALTH_PORT).
	StockArgs bool `json:",omitempty"`
	// Objects are encoded objects of built-in kinds that are applied before the child starts for the first
	// time. The child starts once its ServiceAccount, or that of the manager that Replaces names, has the
	// rights of all roles among them.
	Objects []json.RawMessage `json:",omitempty"`
	// ServiceAccount is whose token the child's kubeconfig has. The zero value means full rights.
	ServiceAccount types.NamespacedName
	// Env is added to the environment that all children get: PATH, HOME and TMPDIR (the state directory), KUBECONFIG.
	Env []string `json:",omitempty"`
	// Ports names ports to be picked for the child. A port stays the same when the child is started again.
	Ports []string `json:",omitempty"`
	// ServingCertificate asks for a certificate for 127.0.0.1, localhost and Config.CertificateNames.
	ServingCertificate bool
	// Ready says when the child counts as started. The zero value: as soon as the process runs.
	Ready Readiness
	// Restart says what happens when the process ends without being asked to.
	Restart RestartPolicy
	// StopTimeout is the time from SIGTERM to SIGKILL. Default: 10 seconds.
	StopTimeout time.Duration
}

// Readiness is how the supervisor learns that a child serves. At most one of URL and TCP is set.
type Readiness struct {
	// URL answers 200. For https, the certificate must come from the plane's CA.
	URL string `json:",omitempty"`
	// TCP is an address (host:port) that accepts connections.
	TCP string `json:",omitempty"`
	// Timeout bounds the wait. Default: 60 seconds.
	Timeout time.Duration
}

// RestartPolicy is what happens when a child ends without being asked to.
type RestartPolicy string

const (
	// RestartNever leaves it down and reports it.
	RestartNever RestartPolicy = ""
	// RestartAlways starts it again, after a delay that grows from 100 ms to 10 s while it keeps ending within 10 s. One that is not
	// ready in time is ended for that. A child that five times in a row could not be started, or ended or was ended before it was
	// ready, stays down, and the plane counts as failed.
	RestartAlways RestartPolicy = "Always"
)

const (
	defaultStopTimeout  = 10 * time.Second
	defaultReadyTimeout = 60 * time.Second
	defaultLogLevel     = 2
	maxNameLength       = 40
	maxInterfaceName    = 15
)

// withDefaults fills what the caller left out, and makes paths absolute: the supervisor has another working directory.
func (c Config) withDefaults() (Config, error) {
	for _, dir := range []*string{&c.StateDir, &c.AssetsDir, &c.SupervisorPath} {
		if *dir == "" {
			continue
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return Config{}, fmt.Errorf("making %q absolute: %w", *dir, err)
		}
		*dir = abs
	}
	if !c.BindAddress.IsValid() {
		c.BindAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if len(c.SupervisorArgs) == 0 {
		c.SupervisorArgs = []string{"supervise"}
	}
	if c.LogLevel == 0 {
		c.LogLevel = defaultLogLevel
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = DefaultStartTimeout
	}
	gates := DefaultFeatureGates()
	maps.Copy(gates, c.FeatureGates)
	c.FeatureGates = gates
	return c, nil
}

// validate reports everything that is wrong with the configuration at once.
func (c Config) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.StateDir == "" {
		add("StateDir is empty: set the directory for the plane's state")
	}
	if c.AssetsDir == "" {
		add("AssetsDir is empty: set the directory that Build wrote to")
	}
	if c.BindAddress.IsValid() && c.BindAddress.IsMulticast() {
		add("BindAddress %s is a multicast address: set an address of the plane's namespace", c.BindAddress)
	}
	switch c.Isolation {
	case IsolationAuto, IsolationRequired, IsolationNone:
	default:
		add("Isolation %q is unknown: use %q, %q or leave it empty", c.Isolation, IsolationRequired, IsolationNone)
	}
	for _, name := range c.Without {
		if !slices.Contains(StockManagers(), name) {
			add("Without: %q is not a stock manager: the names are %s", name, strings.Join(StockManagers(), ", "))
		}
	}
	if c.Veth != nil {
		if c.Isolation == IsolationNone {
			add("Veth needs a network namespace: Isolation must not be %q", IsolationNone)
		}
		errs = append(errs, c.Veth.validate())
	}
	return errors.Join(append(errs, validateChildren(c.Children))...)
}

func validateChildren(children []Child) error {
	var errs []error
	var replaced []string
	var taken []string
	for i, child := range children {
		if slices.Contains(taken, child.Name) {
			errs = append(errs, fmt.Errorf("child %d: the name %q is taken: names are unique in a plane", i, child.Name))
		}
		taken = append(taken, child.Name)
		if child.Replaces != "" && slices.Contains(replaced, child.Replaces) {
			errs = append(errs, fmt.Errorf("child %d: %s is replaced by another child already", i, child.Replaces))
		}
		replaced = append(replaced, child.Replaces)
		if err := child.validate(); err != nil {
			errs = append(errs, fmt.Errorf("child %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (v Veth) validate() error {
	var errs []error
	for field, name := range map[string]string{"Name": v.Name, "PeerName": v.PeerName} {
		if name == "" || len(name) > maxInterfaceName || strings.ContainsAny(name, "/ \t\n") {
			errs = append(errs, fmt.Errorf("interface name Veth.%s %q is not valid: use 1 to %d bytes without slash or space", field, name, maxInterfaceName))
		}
	}
	if !v.Address.IsValid() {
		errs = append(errs, errors.New("address Veth.Address is empty: set an address with its prefix length, such as 10.88.0.1/24"))
	}
	if v.PeerNamespace == "" {
		errs = append(errs, errors.New("namespace Veth.PeerNamespace is empty: set the name, path or process id of the namespace to connect to"))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// reservedNames are those of the plane's own parts.
func reservedNames() []string { return append(StockManagers(), APIServer, supervisorName) }

func (c Child) validate() error {
	var errs []error
	if slices.Contains(reservedNames(), c.Name) {
		errs = append(errs, fmt.Errorf("the name %q is taken: it is that of a part of the plane", c.Name))
	}
	if !validName(c.Name) {
		errs = append(errs, fmt.Errorf("name %q: use 1 to %d lower case letters, digits and dashes", c.Name, maxNameLength))
	}
	if !filepath.IsAbs(c.Path) {
		errs = append(errs, fmt.Errorf("path %q of %q is not absolute: the supervisor has another working directory", c.Path, c.Name))
	}
	if c.Ready.URL != "" && c.Ready.TCP != "" {
		errs = append(errs, fmt.Errorf("readiness of %q has a URL and a TCP address: set one", c.Name))
	}
	errs = append(errs, c.validatePlace())
	switch c.Restart {
	case RestartNever, RestartAlways:
	default:
		errs = append(errs, fmt.Errorf("restart policy %q of %q is unknown: use %q or leave it empty", c.Restart, c.Name, RestartAlways))
	}
	for _, port := range c.Ports {
		if !validName(strings.ToLower(port)) {
			errs = append(errs, fmt.Errorf("port name %q of %q: use letters, digits and dashes", port, c.Name))
		}
	}
	return errors.Join(errs...)
}

// validatePlace checks what the child says about the stock manager that it replaces.
func (c Child) validatePlace() error {
	switch {
	case c.Replaces == "" && c.StockArgs:
		return fmt.Errorf("%q asks for the arguments of a stock manager and replaces none: name it in Replaces", c.Name)
	case c.Replaces != "" && !slices.Contains(StockManagers(), c.Replaces):
		return fmt.Errorf("%q is to replace %q, which is not a stock manager: the names are %s", c.Name, c.Replaces, strings.Join(StockManagers(), ", "))
	}
	return nil
}

// validName keeps names usable as file names (logs, certificate folders) and as URL path segments.
func validName(name string) bool {
	if name == "" || len(name) > maxNameLength {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}
