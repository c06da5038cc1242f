package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updaters"
	"github.com/windlass-dev/windlass/pkg/version"
)

// rancherKind is a kind of bootstrap config whose provider writes the configuration file of RKE2 or
// K3s. In both versions of the API the fields have the same names.
type rancherKind struct {
	kind   string
	fields []argumentField
}

// argumentField is a field with arguments of a component, as NAME=VALUE, that the provider writes
// under a key of the configuration file, with arguments of its own behind.
type argumentField struct {
	path string
	key  string
	safe []string
}

var (
	rke2Kind = rancherKind{"RKE2Config", []argumentField{
		{"agentConfig/kubelet/extraArgs", settings.KubeletArgKey, safeArgs},
		{"agentConfig/kubeProxy/extraArgs", settings.ProxyArgKey, safeProxyArgs},
	}}
	k3sKind = rancherKind{"KThreesConfig", []argumentField{
		{"agentConfig/kubeletArgs", settings.KubeletArgKey, safeArgs},
		{"agentConfig/kubeProxyArgs", settings.ProxyArgKey, safeProxyArgs},
		{"serverConfig/kubeAPIServerArg", "kube-apiserver-arg", safeServerArgs},
		{"serverConfig/kubeControllerManagerArgs", "kube-controller-manager-arg", safeManagerArgs},
		{"serverConfig/kubeSchedulerArgs", "kube-scheduler-arg", safeSchedulerArgs},
	}}
)

// rancherKind returns the kind of the distribution's provider.
func (c coverage) rancherKind() rancherKind {
	if c.distribution == linuxhost.K3s {
		return k3sKind
	}
	return rke2Kind
}

// The arguments that a running component can be given: numbers, durations and gates. All others
// name files, decide who may call the component, or must be the same on all machines of a cluster.
var (
	safeProxyArgs = []string{
		"conntrack-max-per-core", "conntrack-min", "conntrack-tcp-be-liberal",
		"conntrack-tcp-timeout-close-wait", "conntrack-tcp-timeout-established",
		"conntrack-udp-timeout", "conntrack-udp-timeout-stream", "feature-gates",
		"iptables-min-sync-period",
		"iptables-sync-period", "ipvs-min-sync-period", "ipvs-sync-period", "ipvs-tcp-timeout",
		"ipvs-tcpfin-timeout", "ipvs-udp-timeout", "kube-api-burst", "kube-api-qps", "v", "vmodule",
	}
	safeServerArgs = []string{
		"audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize",
		"default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds",
		"default-watch-cache-size", "delete-collection-workers", "event-ttl", "feature-gates",
		"goaway-chance", "http2-max-streams-per-connection", "kubelet-timeout",
		"livez-grace-period", "max-mutating-requests-inflight", "max-requests-inflight",
		"min-request-timeout", "profiling", "request-timeout", "shutdown-delay-duration", "v",
		"vmodule", "watch-cache", "watch-cache-sizes",
	}
	safeManagerArgs = []string{
		"concurrent-deployment-syncs", "concurrent-endpoint-syncs", "concurrent-gc-syncs",
		"concurrent-namespace-syncs", "concurrent-replicaset-syncs", "concurrent-service-syncs",
		"feature-gates", "horizontal-pod-autoscaler-downscale-stabilization",
		"horizontal-pod-autoscaler-sync-period", "horizontal-pod-autoscaler-tolerance",
		"kube-api-burst", "kube-api-qps", "large-cluster-size-threshold", "min-resync-period",
		"namespace-sync-period", "node-eviction-rate", "node-monitor-grace-period",
		"node-monitor-period", "node-startup-grace-period", "profiling",
		"resource-quota-sync-period", "secondary-node-eviction-rate", "terminated-pod-gc-threshold",
		"unhealthy-zone-threshold", "v", "vmodule",
	}
	safeSchedulerArgs = []string{
		"feature-gates", "kube-api-burst", "kube-api-qps", "profiling", "v", "vmodule",
	}
)

// covers reports whether a running host of the Machine can be given the field's arguments.
func (f argumentField) covers(worker bool) bool {
	return !worker || f.key == settings.KubeletArgKey || f.key == settings.ProxyArgKey
}

func (f argumentField) names() []string { return strings.Split(f.path, "/") }

// isSafe reports whether a running component can be given an argument.
func (f argumentField) isSafe(arg settings.Arg) bool {
	return slices.Contains(f.safe, arg.Name) && !isTemplate(arg.Value) &&
		argValue.MatchString(arg.Value)
}

// rancherVersions are the versions of the providers' APIs that are known here.
var rancherVersions = []string{
	"bootstrap.cluster.x-k8s.io/v1beta1", "bootstrap.cluster.x-k8s.io/v1beta2",
}

// readRancherSpec reads the spec of a bootstrap config of a kind; nil for all other objects, and
// for none. object is what was decoded.
func readRancherSpec(
	raw json.RawMessage, scope cover.Scope, kind string,
) (spec configSpec, object map[string]any, err error) {
	if object, err = updaters.DecodeObject(raw); err != nil {
		return nil, nil, fmt.Errorf("the bootstrap config: %w", err)
	}
	fields := []string{"spec"}
	if scope == cover.MachineSet {
		kind, fields = kind+"Template", []string{"spec", "template", "spec"}
	}
	apiVersion, _ := object["apiVersion"].(string)
	if !slices.Contains(rancherVersions, apiVersion) || object["kind"] != kind {
		return nil, nil, nil
	}
	value, _ := updaters.LookUp(object, fields)
	spec, _ = value.(map[string]any)
	if spec == nil {
		spec = configSpec{}
	}
	return spec, object, nil
}

// rancherClaims returns the paths of a config of RKE2 or K3s that an update brings to what is
// desired, and what people should know of the others. ok is false if UpdateMachine would refuse the
// desired config.
func (c coverage) rancherClaims(
	scope cover.Scope, current, desired cover.Objects,
) (paths, notes []string, ok bool, err error) {
	kind := c.rancherKind()
	from, _, err := readRancherSpec(current.Bootstrap, scope, kind.kind)
	if err != nil {
		return nil, nil, false, err
	}
	to, object, err := readRancherSpec(desired.Bootstrap, scope, kind.kind)
	if err != nil || from == nil || to == nil {
		return nil, nil, true, err
	}
	v, err := desiredVersion(scope, desired)
	if err != nil {
		return nil, nil, false, err
	}
	if err := c.refuseRancherSettings(v, object); err != nil {
		return nil, []string{err.Error()}, false, nil //nolint:nilerr // The error is the note.
	}
	for _, field := range kind.fields {
		why := field.uncovered(c.lacksIn(v), c.worker, from, to)
		if why == "" {
			paths = append(paths, "/spec/"+field.path)
		} else if why != unchanged {
			name := strings.ReplaceAll(field.path, "/", ".")
			notes = append(notes, text.Bound(name+": "+why, maxMessage))
		}
	}
	if hasVersion(to, v) {
		paths = append(paths, versionPath)
	}
	return paths, append(notes, registrationNotes(from, to)...), true, nil
}

// hasVersion reports whether a config names the version of its Machine, as K3s' provider writes it.
func hasVersion(spec configSpec, v version.Version) bool {
	named, _ := spec["version"].(string)
	parsed, err := version.Parse(named)
	return err == nil && !v.IsZero() && parsed == v
}

// unchanged is the reason why a field that does not differ is not covered: nothing needs it.
const unchanged = "it is unchanged"

// uncovered says why a field's change is not covered; empty for one that is.
func (f argumentField) uncovered(lacks lacks, worker bool, from, to configSpec) string {
	before, ok := decodeField[[]string](from, f.names()...)
	after, okTo := decodeField[[]string](to, f.names()...)
	switch {
	case !ok || !okTo:
		return "it is no list of arguments"
	case slices.Equal(before, after):
		return unchanged
	case !f.covers(worker):
		return "workers do not use it"
	case len(after) == 0 && !removesOnly(from, to, f.names()):
		return "the list is removed with what is around it"
	}
	return f.uncoveredWords(lacks, before, after)
}

// uncoveredWords says which argument a running host cannot be given.
func (f argumentField) uncoveredWords(lacks lacks, from, to []string) string {
	before, after := byName(from), byName(to)
	for _, word := range from {
		arg := settings.ArgOf(word)
		_, kept := after[arg.Name]
		if !kept && !lacks(settings.RancherComponent(f.key), arg) {
			return fmt.Sprintf("the argument %s is removed, and the host cannot tell which "+
				"arguments are the provider's own", text.Bound(arg.Name, maxName))
		}
	}
	for _, word := range to {
		arg := settings.ArgOf(word)
		if slices.Equal(before[arg.Name], after[arg.Name]) {
			continue
		}
		if len(f.argsOf(after[arg.Name])) == 0 {
			return fmt.Sprintf("a running host is not given the argument %s: it names a file, "+
				"decides who may call the component, counts only when a node is registered, or has a "+
				"value with blanks, quotes or a template", text.Bound(arg.Name, maxName))
		}
	}
	return ""
}

// isPlain reports whether a word is NAME=VALUE, or --NAME=VALUE, without a sign that says where the
// value goes.
func isPlain(word string) bool {
	arg := settings.ArgOf(word)
	return strings.TrimPrefix(word, "--") == arg.Name+"="+arg.Value
}

// byName returns the words of each argument.
func byName(words []string) map[string][]string {
	named := map[string][]string{}
	for _, word := range words {
		name := settings.ArgOf(word).Name
		named[name] = append(named[name], strings.TrimPrefix(word, "--"))
	}
	return named
}

// registrationNotes says why fields that count only when a node is registered are not covered.
func registrationNotes(from, to configSpec) []string {
	var notes []string
	for _, field := range []string{"nodeLabels", "nodeTaints", "nodeName"} {
		before, _ := updaters.LookUp(from, []string{"agentConfig", field})
		after, _ := updaters.LookUp(to, []string{"agentConfig", field})
		if !reflect.DeepEqual(before, after) {
			notes = append(notes, "agentConfig."+field+" counts only when a node is registered")
		}
	}
	return notes
}

// refuseRancherSettings returns a *setupError if a config has a setting that the version lacks.
func (c coverage) refuseRancherSettings(v version.Version, object map[string]any) error {
	if v.IsZero() {
		return nil
	}
	kind, _ := object["kind"].(string)
	name, _ := updaters.LookUp(object, []string{"metadata", "name"})
	from := settings.Object{Kind: kind, Name: fmt.Sprint(name), Content: object}
	uses := settings.FromObject(from)
	uses = slices.DeleteFunc(uses, func(u settings.Use) bool {
		onWorkers := []settings.Component{settings.Kubelet, settings.Proxy, settings.RKE2}
		return c.worker && !slices.Contains(onWorkers, u.Component)
	})
	found := settings.Check(settings.Upgrade{To: v}, uses)
	found = settings.Errors(settings.Accepted(found, c.accepted))
	if len(found) == 0 {
		return nil
	}
	return &setupError{string(linuxhost.RemovedSetting), errors.New(settings.Describe(found))}
}

// withRancherConfig adds what a config of RKE2 or K3s asks for. Without a config that is known
// here, it adds nothing. It returns a *setupError for a config with a setting that the version
// lacks.
func (c coverage) withRancherConfig(
	goal linuxhost.Goal, bootstrap json.RawMessage,
) (linuxhost.Goal, error) {
	kind := c.rancherKind()
	spec, object, err := readRancherSpec(bootstrap, cover.Machine, kind.kind)
	if err != nil {
		return linuxhost.Goal{}, setup("%w", err)
	}
	if spec == nil {
		return goal, nil
	}
	if err := c.refuseRancherSettings(goal.Version, object); err != nil {
		return linuxhost.Goal{}, err
	}
	goal.DropRemoved = true
	for _, field := range kind.fields {
		words, _ := decodeField[[]string](spec, field.names()...)
		list := linuxhost.ComponentArguments{Key: field.key, Args: field.argsOf(words)}
		if field.covers(c.worker) && len(list.Args) > 0 {
			goal.Arguments = append(goal.Arguments, list)
		}
	}
	return goal, nil
}

// argsOf returns the arguments that a running host can be given. An argument counts as a whole: it
// stays as the host has it if one of its words cannot be given.
func (f argumentField) argsOf(words []string) []linuxhost.Arg {
	given := func(word string) bool { return f.isSafe(settings.ArgOf(word)) && isPlain(word) }
	stays := map[string]bool{}
	for _, word := range words {
		if !given(word) {
			stays[settings.ArgOf(word).Name] = true
		}
	}
	var args []linuxhost.Arg
	for _, word := range words {
		if arg := settings.ArgOf(word); !stays[arg.Name] {
			args = append(args, linuxhost.Arg(arg))
		}
	}
	return args
}
