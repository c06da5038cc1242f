package settings

import (
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// API is the kind of a setting: the API of a configuration file that a flag names. The Name of such a
// use is GROUP/VERSION/KIND. A component ends if it does not know the API of its file.
const API Kind = "api"

// api is an API of a file: GROUP/VERSION and KIND.
type api struct {
	version, kind string
	// first and last are the minors of 1 that decode it. 0 means before v1.28, and up to the newest.
	first, last uint32
}

// fileForm is what a component decodes one of its files from.
type fileForm struct {
	component Component
	// flag names the file. It is empty for what an AdmissionConfiguration holds or refers to for one of
	// its plugins.
	flag string
	// apis have what to use last.
	apis []api
}

// The groups of the API server's files.
const (
	apiServerGroup  = "apiserver.k8s.io/"
	apiConfigGroup  = "apiserver.config.k8s.io/"
	podSecurity     = "pod-security.admission.config.k8s.io/"
	resourceQuota   = "resourcequota.admission.k8s.io/"
	schedulerGroup  = "kubescheduler.config.k8s.io/"
	kubeletGroup    = "kubelet.config.k8s.io/"
	admissionConfig = "AdmissionConfiguration"
)

// fileForms are the files of components. They are what the schemes of the released v1.28 to v1.36
// register with which components decode them:
//   - k8s.io/kubernetes: pkg/scheduler/apis/config/scheme (v1beta1 was removed in v1.23 by
//     kubernetes#104782, v1beta2 in v1.28 by #117649, v1beta3 in v1.29 by #119994),
//     pkg/credentialprovider/plugin, pkg/kubelet/apis/config/scheme, pkg/proxy/apis/config/scheme,
//     plugin/pkg/admission/{eventratelimit,podtolerationrestriction}
//   - k8s.io/apiserver: pkg/apis/apiserver (v1alpha1, v1beta1, v1) and in v1.28 and v1.29 pkg/apis/config/v1
//     for encryption, pkg/apis/audit (v1alpha1 and v1beta1 were removed in v1.24 by kubernetes#108092),
//     pkg/admission/plugin/webhook/config (v1alpha1 was removed in v1.36 by kubernetes#137379),
//     pkg/admission/plugin/resourcequota
//   - k8s.io/pod-security-admission: admission/api/scheme
var fileForms = []fileForm{
	{Scheduler, "config", []api{
		{schedulerGroup + "v1beta1", "KubeSchedulerConfiguration", 0, 22},
		{schedulerGroup + "v1beta2", "KubeSchedulerConfiguration", 0, 27},
		{schedulerGroup + "v1beta3", "KubeSchedulerConfiguration", 0, 28},
		{schedulerGroup + "v1", "KubeSchedulerConfiguration", 0, 0},
	}},
	{APIServer, admissionFlag, []api{
		{apiServerGroup + "v1alpha1", admissionConfig, 0, 0},
		{apiConfigGroup + "v1", admissionConfig, 0, 0},
	}},
	{APIServer, "", []api{
		{apiConfigGroup + "v1alpha1", "WebhookAdmission", 0, 35},
		{apiConfigGroup + "v1", "WebhookAdmissionConfiguration", 0, 0},
	}},
	{APIServer, "", []api{
		{podSecurity + "v1alpha1", "PodSecurityConfiguration", 0, 0},
		{podSecurity + "v1beta1", "PodSecurityConfiguration", 0, 0},
		{podSecurity + "v1", "PodSecurityConfiguration", 0, 0},
	}},
	{APIServer, "", []api{
		{resourceQuota + "v1alpha1", "Configuration", 0, 0},
		{resourceQuota + "v1beta1", "Configuration", 0, 0},
		{apiConfigGroup + "v1", "ResourceQuotaConfiguration", 0, 0},
	}},
	{APIServer, "", []api{{"eventratelimit.admission.k8s.io/v1alpha1", "Configuration", 0, 0}}},
	{APIServer, "", []api{{"podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration", 0, 0}}},
	{APIServer, "audit-policy-file", []api{
		{"audit.k8s.io/v1alpha1", "Policy", 0, 23},
		{"audit.k8s.io/v1beta1", "Policy", 0, 23},
		{"audit.k8s.io/v1", "Policy", 0, 0},
	}},
	{APIServer, encryptionFlag, []api{
		{"v1", "EncryptionConfig", 0, 0},
		{apiConfigGroup + "v1", "EncryptionConfiguration", 0, 0},
	}},
	{APIServer, "authentication-config", []api{
		{apiConfigGroup + "v1alpha1", "AuthenticationConfiguration", 29, 0},
		{apiConfigGroup + "v1beta1", "AuthenticationConfiguration", 30, 0},
		{apiConfigGroup + "v1", "AuthenticationConfiguration", 34, 0},
	}},
	{APIServer, "authorization-config", []api{
		{apiConfigGroup + "v1alpha1", "AuthorizationConfiguration", 29, 0},
		{apiConfigGroup + "v1beta1", "AuthorizationConfiguration", 30, 0},
		{apiConfigGroup + "v1", "AuthorizationConfiguration", 32, 0},
	}},
	{APIServer, "egress-selector-config-file", []api{
		{apiServerGroup + "v1alpha1", "EgressSelectorConfiguration", 0, 0},
		{apiServerGroup + "v1beta1", "EgressSelectorConfiguration", 0, 0},
	}},
	{APIServer, "tracing-config-file", []api{
		{apiConfigGroup + "v1alpha1", "TracingConfiguration", 0, 0},
		{apiConfigGroup + "v1beta1", "TracingConfiguration", 0, 0},
		{apiConfigGroup + "v1", "TracingConfiguration", 34, 0},
	}},
	{Kubelet, "image-credential-provider-config", []api{
		{kubeletGroup + "v1alpha1", "CredentialProviderConfig", 0, 0},
		{kubeletGroup + "v1beta1", "CredentialProviderConfig", 0, 0},
		{kubeletGroup + "v1", "CredentialProviderConfig", 0, 0},
	}},
	{Kubelet, "config", []api{{kubeletGroup + "v1beta1", "KubeletConfiguration", 0, 0}}},
	{Proxy, "config", []api{{"kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration", 0, 0}}},
}

// admissionFlag names a file with the configuration of admission plugins.
const admissionFlag = "admission-control-config-file"

func (a api) name() string { return a.version + "/" + a.kind }

// group returns the group of GROUP/VERSION or GROUP/VERSION/KIND.
func group(name string) string {
	group, _, _ := strings.Cut(name, "/")
	return group
}

// formOf returns the form of the file that a flag of a component names and that has an API. An API is of
// a form if that has it, or another one of its group; ok is false for others.
func formOf(c Component, flag, name string) (form fileForm, ok bool) {
	forms := slices.Collect(func(yield func(fileForm) bool) {
		for _, f := range fileForms {
			if f.component == c && f.flag == flag && !yield(f) {
				return
			}
		}
	})
	for _, isOne := range []func(api) bool{
		func(a api) bool { return a.name() == name },
		func(a api) bool { return group(a.version) == group(name) },
	} {
		for _, f := range forms {
			if slices.ContainsFunc(f.apis, isOne) {
				return f, true
			}
		}
	}
	return fileForm{}, false
}

// findAPI returns an API of a component by its name, and the one to use in its place.
func findAPI(c Component, name string) (a, use api, ok bool) {
	for _, f := range fileForms {
		if f.component != c {
			continue
		}
		if at := slices.IndexFunc(f.apis, func(a api) bool { return a.name() == name }); at >= 0 {
			return f.apis[at], f.apis[len(f.apis)-1], true
		}
	}
	return api{}, api{}, false
}

// examineAPI returns what is wrong with the API of a file in a minor; ok is false for nothing, and for a
// minor that is newer than what is known.
func examineAPI(use Use, minor version.Minor) (f Finding, ok bool) {
	f = Finding{Use: use, At: minor}
	at := func(minor uint32) version.Minor { return version.Minor{Major: Major, Minor: minor} }
	a, _, known := findAPI(use.Component, use.Name)
	switch {
	case minor.Major != Major || Newest().Before(minor):
		return f, false
	case !known:
		f.Problem = Unrecognized
	case a.last > 0 && minor.Minor > a.last:
		f.Problem, f.Since = Removed, at(a.last+1)
	case minor.Minor < a.first:
		f.Problem, f.Since = TooNew, at(a.first)
	default:
		return f, false
	}
	return f, true
}
