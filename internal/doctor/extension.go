package doctor

import (
	"crypto/x509"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
)

// Hooks are the hooks by which Cluster API updates machines in place. It wants exactly one extension for each.
func Hooks() []string { return []string{"CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"} }

func checkExtension(f Facts, groups []group, into *findings) {
	if len(inPlace(groups)) == 0 {
		// Cluster API asks about all machines.
		for _, c := range f.Conflicts() {
			into.add(Error, c.Subject, c.Fix, "%s", c.Message)
		}
		return
	}
	if !f.Live && len(f.Extensions) == 0 {
		into.unknown("ExtensionConfigs", askLive, "manifests do not show whether the extension is registered")
		return
	}
	used := map[string]*runtimev1.ExtensionConfig{}
	for _, hook := range Hooks() {
		checkHook(f, hook, used, into)
	}
	for i := range f.Extensions {
		e := &f.Extensions[i]
		// One that was not discovered has no handlers yet, and may be the one that is missed.
		if used[e.Name] != nil || len(e.Status.Handlers) == 0 && f.Live {
			checkExtensionConfig(e, into)
		}
	}
}

func checkHook(f Facts, hook string, used map[string]*runtimev1.ExtensionConfig, into *findings) {
	subject := hookSubject(hook)
	found := registrations(f, hook)
	for _, r := range found {
		used[r.Extension.Name] = r.Extension
	}
	switch len(found) {
	case 0:
		if !f.Live {
			into.unknown(subject, askLive, "manifests do not show which handler serves it: Cluster API discovers handlers at run time")
			return
		}
		into.add(Error, subject, "register the extension with an ExtensionConfig whose namespaceSelector selects this namespace: kubectl apply -k config/default",
			"no extension serves it, so Cluster API replaces machines")
		return
	case 1:
	default:
		c := describeConflict(hook, found)
		into.add(Error, subject, c.Fix, "%s", c.Message)
		return
	}
	r := found[0]
	switch {
	case r.FailurePolicy == runtimev1.FailurePolicyIgnore:
		into.add(Error, subject, "set the handler's failure policy to Fail", "handler %s has the failure policy Ignore: while the extension is unreachable, Cluster API counts an update as done that did not happen", r.Name)
	case !isOurs(f, hook, r.Name):
		into.add(Error, subject, "register Windlass instead, and that program as an Updater", "%s serves it, not Windlass, so UpdatePolicies and Updaters have no effect", r.Name)
	default:
		into.ok(subject, "only %s serves it", r.Name)
	}
}

func hookSubject(hook string) string { return "hook " + hook }

// Conflict is a hook for which Cluster API finds several extensions in a Cluster's namespace. It then
// neither updates nor replaces machines, also those that no UpdatePolicy selects.
type Conflict struct{ Subject, Message, Fix string }

// Conflicts returns those of the Cluster, in the order of Hooks.
func (f Facts) Conflicts() []Conflict {
	var list []Conflict
	for _, hook := range Hooks() {
		if found := registrations(f, hook); len(found) > 1 {
			list = append(list, describeConflict(hook, found))
		}
	}
	return list
}

// k0smotronExtension is the name of the ExtensionConfig in k0smotron's manifests. Its controller looks
// for it by this name, and updates control planes without the hooks if there is none.
const k0smotronExtension = "inplace-version-update-extensionconfig"

func describeConflict(hook string, found []capi.Handler) Conflict {
	names := make([]string, 0, len(found))
	fix := "keep one ExtensionConfig for this namespace: give the others a spec.namespaceSelector that omits it, " +
		"or delete them and register their programs as Updaters"
	for _, r := range found {
		names = append(names, r.Name)
		if r.Extension.Name == k0smotronExtension {
			fix = "keep one ExtensionConfig for this namespace: give each a spec.namespaceSelector, so that k0smotron's selects " +
				"namespaces with its clusters only; or delete " + k0smotronExtension + ": k0smotron then updates a K0sControlPlane " +
				"with updateStrategy InPlace by itself, through its autopilot"
		}
	}
	return Conflict{Subject: hookSubject(hook), Fix: fix, Message: fmt.Sprintf(
		"%d handlers serve it (%s), and Cluster API allows exactly one: it neither updates nor replaces machines",
		len(found), join(names))}
}

// isOurs goes by the name of the handler, which Cluster API makes of the handler's own and that of the ExtensionConfig.
func isOurs(f Facts, hook, handler string) bool {
	name, _, _ := strings.Cut(handler, ".")
	return f.Handlers[hook] == "" || f.Handlers[hook] == name
}

// registrations are the handlers that Cluster API would call for an object of the Cluster's namespace.
func registrations(f Facts, hook string) []capi.Handler {
	return capi.HandlersOf(f.Extensions, f.namespace(), hook)
}

func checkExtensionConfig(e *runtimev1.ExtensionConfig, into *findings) {
	subject := "ExtensionConfig " + e.Name
	discovered := meta.FindStatusCondition(e.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition)
	switch {
	case discovered == nil:
		into.add(Error, subject, "see the log of capi-controller-manager; it needs the feature gate RuntimeSDK", "Cluster API has not discovered it")
	case discovered.Status != metav1.ConditionTrue:
		into.add(Error, subject, "see that the extension runs and can be reached, and that its certificate is signed by the CA bundle", "Cluster API could not discover it: %s", discovered.Message)
	default:
		into.ok(subject, "it was discovered")
	}
	if problem, severity := checkBundle(e); problem != "" {
		into.add(severity, subject, "put the CA's certificate in spec.clientConfig.caBundle, or set the annotation "+runtimev1.InjectCAFromSecretAnnotation, "%s", problem)
	}
}

func checkBundle(e *runtimev1.ExtensionConfig) (problem string, severity Severity) {
	bundle := e.Spec.ClientConfig.CABundle
	switch {
	case len(bundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(bundle):
		return "its CA bundle holds no certificate in PEM", Error
	case len(bundle) > 0:
		return "", OK
	case e.Annotations[runtimev1.InjectCAFromSecretAnnotation] != "":
		return fmt.Sprintf("its CA bundle is empty, though it is to be taken from Secret %s", e.Annotations[runtimev1.InjectCAFromSecretAnnotation]), Error
	default:
		return "its CA bundle is empty, so that only a certificate of a public CA is trusted", Warning
	}
}
