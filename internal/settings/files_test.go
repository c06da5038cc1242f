package settings_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

const scheduler3 = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"

func encoded(t *testing.T, text string, zip bool) string {
	t.Helper()
	if zip {
		var buffer bytes.Buffer
		w := gzip.NewWriter(&buffer)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text = buffer.String()
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// rke2 is the spec of an RKE2ControlPlane with a file for the scheduler.
func rke2(file map[string]any) map[string]any {
	file["path"] = "/etc/rancher/rke2/scheduler.yaml"
	return map[string]any{
		"files": []any{file},
		"serverConfig": map[string]any{"kubeScheduler": map[string]any{
			"extraArgs": []any{"config=/etc/rancher/rke2/scheduler.yaml"},
		}},
	}
}

// kubeadm is the spec of a KubeadmControlPlane: a YAML text.
func kubeadm(t *testing.T, text string) map[string]any {
	t.Helper()
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"kubeadmConfigSpec": spec}
}

// TestFiles: an API of a file that a component is given and that the version no longer decodes is an
// error, and an unknown one of a known group is a warning.
func TestFiles(t *testing.T) {
	t.Parallel()
	const (
		gone    = "kube-scheduler/kubescheduler.config.k8s.io/v1beta3/KubeSchedulerConfiguration"
		volumes = `
files:
- path: /etc/kubernetes/own/scheduler.yaml
  content: "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration"
clusterConfiguration:
  scheduler:
    extraArgs: [{name: config, value: /config/scheduler.yaml}]
    extraVolumes:
    - {name: other, hostPath: /elsewhere, mountPath: /}
    - {name: own, hostPath: /etc/kubernetes/own, mountPath: /config}
`
		admission = `
files:
- path: /etc/kubernetes/admission.yaml
  content: |
    apiVersion: apiserver.config.k8s.io/v1
    kind: AdmissionConfiguration
    plugins:
    - name: PodSecurity
      configuration: {apiVersion: pod-security.admission.config.k8s.io/v1beta1, kind: PodSecurityConfiguration}
    - {name: ValidatingAdmissionWebhook, path: webhooks.yaml}
    - name: MutatingAdmissionWebhook
      configuration: {apiVersion: apiserver.config.k8s.io/v1alpha1, kind: WebhookAdmission}
- path: /etc/kubernetes/webhooks.yaml
  content: "apiVersion: apiserver.config.k8s.io/v1alpha1\nkind: WebhookAdmission"
- path: /etc/kubernetes/authentication.yaml
  content: "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration"
- path: /etc/kubernetes/audit.yaml
  content: "apiVersion: audit.k8s.io/v1\nkind: Policy"
clusterConfiguration:
  apiServer:
    extraArgs:
    - {name: admission-control-config-file, value: /etc/kubernetes/admission.yaml}
    - {name: authentication-config, value: /etc/kubernetes/authentication.yaml}
    - {name: audit-policy-file, value: /etc/kubernetes/audit.yaml}
`
		encryption = `
files:
- path: /etc/kubernetes/enc/config.yaml
  content: |
    apiVersion: apiserver.config.k8s.io/v1
    kind: EncryptionConfiguration
    resources:
    - resources: [secrets]
      providers: [{kms: {apiVersion: v1, name: key1}}, {identity: {}}]
    - resources: [configmaps]
      providers: [{kms: {name: key2}}, {kms: {apiVersion: v2, name: key3}}]
clusterConfiguration:
  apiServer:
    extraArgs:
    - {name: encryption-provider-config, value: /etc/kubernetes/enc/config.yaml}
    - {name: feature-gates, value: GATES}
`
		kms     = "kube-apiserver/kms.apiVersion=v1"
		webhook = "kube-apiserver/apiserver.config.k8s.io/v1alpha1/WebhookAdmission"
	)
	rancher := func(file map[string]any) settings.Object {
		return settings.Object{Kind: "RKE2ControlPlane", Content: map[string]any{"spec": rke2(file)}}
	}
	gates := func(value string) settings.Object {
		return settings.Object{Kind: "KubeadmControlPlane", Content: map[string]any{"spec": kubeadm(t, strings.ReplaceAll(encryption, "GATES", value))}}
	}
	v2 := gates("KMSv1=false")
	v2.Content["spec"] = kubeadm(t, strings.NewReplacer("apiVersion: v1,", "apiVersion: v2,", "{name: key2}", "{name: key2, apiVersion: v2}").Replace(encryption))
	own := func(text string) settings.Object {
		return settings.Object{Kind: "KubeadmControlPlane", Content: map[string]any{"spec": kubeadm(t, text)}}
	}
	for name, tt := range map[string]struct {
		object   settings.Object
		from, to string
		// want are IDs, those of warnings with a question mark.
		want string
	}{
		"removed":            {rancher(map[string]any{"content": scheduler3}), "v1.28.15", "v1.29.1", gone},
		"removed long ago":   {rancher(map[string]any{"content": scheduler3}), "v1.32.5", "v1.33.5", gone},
		"on the way":         {rancher(map[string]any{"content": scheduler3}), "v1.27.1", "v1.28.2", ""},
		"base64":             {rancher(map[string]any{"content": encoded(t, scheduler3, false), "encoding": "base64"}), "v1.28.15", "v1.29.1", gone},
		"gzip":               {rancher(map[string]any{"content": encoded(t, scheduler3, true), "encoding": "gzip+base64"}), "v1.28.15", "v1.29.1", gone},
		"not base64":         {rancher(map[string]any{"content": scheduler3, "encoding": "base64"}), "v1.28.15", "v1.29.1", ""},
		"the first document": {rancher(map[string]any{"content": "---\n" + scheduler3 + "---\na: b\n"}), "v1.28.15", "v1.29.1", gone},
		"v1":                 {rancher(map[string]any{"content": strings.ReplaceAll(scheduler3, "v1beta3", "v1")}), "v1.28.15", "v1.29.1", ""},
		"an unknown version": {rancher(map[string]any{"content": strings.ReplaceAll(scheduler3, "v1beta3", "v2")}), "v1.28.15", "v1.29.1", "?" + strings.ReplaceAll(gone, "v1beta3", "v2")},
		"another group":      {rancher(map[string]any{"content": "apiVersion: example.com/v1\nkind: Own\n"}), "v1.28.15", "v1.29.1", ""},
		"added to a file":    {rancher(map[string]any{"content": scheduler3, "append": true}), "v1.28.15", "v1.29.1", ""},
		"from a Secret":      {rancher(map[string]any{"contentFrom": map[string]any{}}), "v1.28.15", "v1.29.1", ""},
		"a template":         {rancher(map[string]any{"content": scheduler3 + "{{ if }}\n"}), "v1.28.15", "v1.29.1", ""},
		"through a volume":   {own(volumes), "v1.28.15", "v1.29.1", gone},
		"the volume is the file": {own(strings.NewReplacer("/etc/kubernetes/own,", "/etc/kubernetes/own/scheduler.yaml,",
			"mountPath: /config}", "mountPath: /config/scheduler.yaml}").Replace(volumes)), "v1.28.15", "v1.29.1", gone},
		"a volume of a similar name": {own(strings.ReplaceAll(volumes, "mountPath: /config}", "mountPath: /con}")), "v1.28.15", "v1.29.1", ""},
		"plugins, since":             {own(admission), "v1.35.4", "v1.36.3", webhook + " " + webhook},
		"plugins, before":            {own(admission), "v1.34.4", "v1.35.4", ""},
		"too new on the way":         {own(admission), "v1.32.4", "v1.34.4", "kube-apiserver/apiserver.config.k8s.io/v1/AuthenticationConfiguration"},
		"KMS v1":                     {gates(""), "v1.28.15", "v1.29.14", kms + " " + kms},
		"KMS v1, on the way":         {gates("KMSv1=false"), "v1.28.15", "v1.33.14", kms + " " + kms},
		"KMS v1, before":             {gates(""), "v1.27.15", "v1.28.15", ""},
		"KMS v1, its gate":           {gates("KMSv1=true"), "v1.28.15", "v1.36.3", ""},
		"KMS v2":                     {v2, "v1.28.15", "v1.36.3", ""},
		"newer than is known":        {own(admission), "v1.36.4", settings.Newest().Next().String() + ".0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uses := settings.FromObject(tt.object)
			var got []string
			u := settings.Upgrade{From: version.MustParse(tt.from), To: version.MustParse(tt.to)}
			for _, f := range settings.Check(u, uses) {
				if f.Kind != settings.API && f.Kind != settings.Fixed {
					continue
				}
				id := f.ID()
				if f.Warning {
					id = "?" + id
				}
				got = append(got, id)
				if found := settings.Accepted([]settings.Finding{f}, []string{f.ID()}); len(found) > 0 {
					t.Errorf("%s is not accepted by its name", f.ID())
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFileFinding: a finding about a file names the file, the API, the minor, and the API to use.
func TestFileFinding(t *testing.T) {
	t.Parallel()
	object := settings.Object{Kind: "RKE2ControlPlane", Name: "cp", Content: map[string]any{"spec": rke2(map[string]any{"content": scheduler3})}}
	found := settings.Check(settings.Upgrade{To: version.MustParse("v1.29.1")}, settings.FromObject(object))
	if len(found) != 1 {
		t.Fatal(found)
	}
	want := "RKE2ControlPlane cp, spec.files[/etc/rancher/rke2/scheduler.yaml]: the file's API " +
		"kubescheduler.config.k8s.io/v1beta3/KubeSchedulerConfiguration of kube-scheduler is removed in v1.29; the component would not start. " +
		"Fix: write the file as KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1 before the upgrade; " +
		"accept it by the name kube-scheduler/kubescheduler.config.k8s.io/v1beta3/KubeSchedulerConfiguration if this build has it"
	if diff := cmp.Diff(want, settings.Describe(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestValueFinding: a finding about a value of a file names the file, the provider, the minor, and both ways out.
func TestValueFinding(t *testing.T) {
	t.Parallel()
	spec := kubeadm(t, `
files:
- path: /etc/enc.yaml
  content: '{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{providers: [{kms: {name: key2}}]}]}'
clusterConfiguration: {apiServer: {extraArgs: {encryption-provider-config: /etc/enc.yaml}}}
`)
	object := settings.Object{Kind: "KubeadmControlPlane", Name: "cp", Content: map[string]any{"spec": spec}}
	found := settings.Check(settings.Upgrade{To: version.MustParse("v1.29.14")}, settings.FromObject(object))
	if len(found) != 1 {
		t.Fatal(found)
	}
	want := "KubeadmControlPlane cp, spec.kubeadmConfigSpec.files[/etc/enc.yaml].kms[key2]: the value kms.apiVersion=v1 of kube-apiserver " +
		"needs the gate KMSv1 since v1.29, which is off by default; the component would not start. " +
		"Fix: encrypt with a KMS plugin of apiVersion v2, and rewrite what is encrypted, or set the gate KMSv1=true, before the upgrade; " +
		"accept it by the name kube-apiserver/kms.apiVersion=v1 if this build has it"
	if diff := cmp.Diff(want, settings.Describe(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
