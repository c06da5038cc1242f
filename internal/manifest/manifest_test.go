package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func decode(t *testing.T, text string) *Set {
	t.Helper()
	s := &Set{}
	if err := s.Decode("f.yaml", []byte(text)); err != nil {
		t.Fatalf("Decode: %v", err)
	}
	return s
}

func TestSplitDocuments(t *testing.T) {
	type found struct {
		Document, Line int
		Text           string
	}
	for _, test := range []struct {
		name, text string
		want       []found
	}{
		{name: "nothing"},
		{name: "space and comments", text: "\n# c\n---\n\n"},
		{name: "one", text: "a: 1\n", want: []found{{1, 1, "a: 1\n"}}},
		{name: "no newline at the end", text: "a: 1", want: []found{{1, 1, "a: 1"}}},
		{name: "comments before a marker", text: "# c\n---\n# d\na: 1\n", want: []found{{1, 4, "a: 1\n"}}},
		{name: "two", text: "a: 1\n---\nb: 2\n", want: []found{{1, 1, "a: 1\n"}, {2, 3, "b: 2\n"}}},
		{name: "an empty one between counts", text: "a: 1\n---\n# c\n---\nb: 2\n", want: []found{{1, 1, "a: 1\n"}, {3, 5, "b: 2\n"}}},
		{name: "content behind a marker", text: "--- {a: 1}\n--- # c\nb: 2\n", want: []found{{1, 1, "    {a: 1}\n"}, {2, 3, "b: 2\n"}}},
		{name: "Windows", text: "\ufeffa: 1\r\n---\r\nb: 2\r\n", want: []found{{1, 1, "a: 1\r\n"}, {2, 3, "b: 2\r\n"}}},
		{name: "directives and ends", text: "%YAML 1.2\n---\na: 1\n...\n", want: []found{{1, 3, "a: 1\n"}}},
		{name: "a marker within a scalar", text: "a: |\n  x\n  ---\n  y\n", want: []found{{1, 1, "a: |\n  x\n  ---\n  y\n"}}},
		{name: "not a marker", text: "---a: 1\n", want: []found{{1, 1, "---a: 1\n"}}},
		{name: "a comment within a document stays", text: "a: 1\n# c\nb: 2\n", want: []found{{1, 1, "a: 1\n# c\nb: 2\n"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []found
			for _, d := range splitDocuments("f", []byte(test.text)) {
				got = append(got, found{d.origin.Document, d.origin.Line, string(d.text)})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("splitDocuments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeKinds(t *testing.T) {
	s := decode(t, `
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: old, namespace: ns}
spec:
  controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, name: cp, namespace: ns}
  topology: {class: class, classNamespace: classes, version: v1.30.0, workers: {machineDeployments: [{class: w, name: md}], machinePools: [{class: w, name: mp}]}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata: {name: class}
spec: {kubernetesVersions: [v1.30.0], upgrade: {external: {generateUpgradePlanExtension: x}}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: md}
spec: {clusterName: old, template: {spec: {clusterName: old, version: v1.30.0, bootstrap: {}, infrastructureRef: {kind: X, name: infra}}}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachinePool
metadata: {name: mp}
spec: {clusterName: old, template: {spec: {clusterName: old, version: v1.29.0}}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Machine
metadata: {name: m}
spec: {clusterName: old, version: v1.28.0}
---
apiVersion: v1
kind: Secret
metadata: {name: ignored}
spec: 7
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlaneTemplate
metadata: {name: ignored}
spec: {version: v1.30.0}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: cp, namespace: ns}
spec: {version: v1.31.0}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: another, namespace: ns}
spec: {version: v1.32.0}
`)
	cluster, err := s.Cluster("", "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp"}, cluster.Spec.ControlPlaneRef); diff != "" {
		t.Errorf("controlPlaneRef (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(clusterv1.ClusterClassRef{Name: "class", Namespace: "classes"}, cluster.Spec.Topology.ClassRef); diff != "" {
		t.Errorf("classRef (-want +got):\n%s", diff)
	}
	class, err := s.ClusterClass(cluster)
	if err != nil || class.Spec.KubernetesVersions[0] != "v1.30.0" || class.Spec.Upgrade.External.GenerateUpgradePlanExtension != "x" {
		t.Errorf("ClusterClass: %v, error %v", class, err)
	}
	o, err := s.Objects(cluster)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		o.ControlPlane.GetName(), o.MachineDeployments[0].Spec.Template.Spec.Version, o.MachinePools[0].Spec.Template.Spec.Version, o.Machines[0].Spec.Version,
	}
	if diff := cmp.Diff([]string{"cp", "v1.30.0", "v1.29.0", "v1.28.0"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	origin, _ := s.OriginOf(class)
	if diff := cmp.Diff(Origin{File: "f.yaml", Document: 2, Line: 9}, origin); diff != "" {
		t.Errorf("origin (-want +got):\n%s", diff)
	}
}

func TestControlPlaneByLabel(t *testing.T) {
	const text = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
---
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: RKE2ControlPlane
metadata: {name: cp, namespace: ns, labels: {cluster.x-k8s.io/cluster-name: c}}
spec: {version: v1.31.0+rke2r1}
---
apiVersion: example.com/v1
kind: Database
metadata: {name: db, labels: {cluster.x-k8s.io/cluster-name: c}}
spec: {version: v1.0.0}
`
	s := decode(t, text)
	o, err := s.Objects(s.Clusters[0])
	if err != nil || o.ControlPlane == nil || o.ControlPlane.GetName() != "cp" {
		t.Errorf("Objects: control plane %v, error %v", o.ControlPlane, err)
	}
	_, objects, _ := strings.Cut(text, "---")
	s = decode(t, text+"---"+strings.ReplaceAll(objects, "name: cp", "name: cp2"))
	if _, err := s.Objects(s.Clusters[0]); err == nil || !strings.Contains(err.Error(), "document 4") {
		t.Errorf("two control planes: %v, want an error that names the second", err)
	}
}

func TestClassNamespaces(t *testing.T) {
	const class = "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: class%s}\n"
	const cluster = "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: c%s}\nspec: {topology: {version: v1.30.0, classRef: {name: class%s}}}\n"
	ns := func(name string) string {
		if name == "" {
			return ""
		}
		return ", namespace: " + name
	}
	for _, test := range []struct {
		name, cluster, ref string
		classes            []string
		want               int
	}{
		{name: "nobody has one", classes: []string{""}},
		{name: "the class has none", cluster: "a", classes: []string{""}},
		{name: "the cluster has none", classes: []string{"a"}},
		{name: "the exact one", cluster: "a", classes: []string{"b", "a"}, want: 1},
		{name: "another namespace by reference", cluster: "a", ref: "b", classes: []string{"a", "b"}, want: 1},
		{name: "another namespace only", cluster: "a", classes: []string{"b"}, want: -1},
		{name: "twice the same", cluster: "a", classes: []string{"a", ""}, want: -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := fmt.Sprintf(cluster, ns(test.cluster), ns(test.ref))
			for _, c := range test.classes {
				text += fmt.Sprintf(class, ns(c))
			}
			s := decode(t, text)
			got, err := s.ClusterClass(s.Clusters[0])
			if test.want < 0 {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Errorf("ClusterClass: %v, want an *Error", err)
				}
				return
			}
			if err != nil || got != s.ClusterClasses[test.want] {
				t.Errorf("ClusterClass: %v, error %v", got, err)
			}
		})
	}
}

// TestOwnKindsAreStrict: a misspelt field of Windlass' own kinds would otherwise have a policy select everything.
func TestOwnKindsAreStrict(t *testing.T) {
	const head = "kind: Other\napiVersion: v1\n---\napiVersion: windlass.dev/v1alpha1\nmetadata: {name: a}\n"
	for _, test := range []struct{ text, field, problem string }{
		{"kind: UpdatePolicy\nspec: {strategy: ExternalUpdate, targets: [{clusterName: a}, {clusterNme: demo}]}", "spec.targets[1].clusterNme", ""},
		{"kind: UpdatePolicy\nspec: {strategy: ExternalUpdate, Targets: [], targts: []}", "spec.Targets", " (and 1 more like it)"},
		{"kind: Updater\nspec: {inproces: {kind: K8sd}}", "spec.inproces", ""},
		{"kind: UpgradeGraph\nversions: [v1.30.0]", "versions", ""},
	} {
		err := (&Set{}).Decode("f.yaml", []byte(head+test.text+"\n"))
		found, ok := errors.AsType[*Error](err)
		if !ok || found.Field != test.field || !strings.Contains(found.Problem, "there is no such field") || !strings.HasSuffix(found.Problem, test.problem) {
			t.Errorf("%s: %v, want an error about %s", test.text, err, test.field)
			continue
		}
		if found.Origin.File != "f.yaml" || found.Origin.Document != 2 {
			t.Errorf("%s: the origin is %s", test.text, found.Origin)
		}
	}
	// What is known is accepted, as the API server prints it too; other kinds may be of a newer release.
	for _, text := range []string{
		"kind: UpdatePolicy\nspec: {strategy: ExternalUpdate, targets: [{clusterName: a}]}\nstatus: {groupCount: 1, conditions: []}",
		"kind: Unknown\nspec: {targts: []}",
	} {
		if err := (&Set{}).Decode("f.yaml", []byte(head+text+"\n")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestReadFolder holds which files of a folder are read, and what is refused.
func TestReadFolder(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	const noFile = "the folder has no *.yaml, *.yml or *.json file; folders within it are not read"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"an empty file":        {map[string]string{"a.yaml": object, "b.yaml": "", "c.md": "text"}, "ConfigMap a"},
		"only an empty file":   {map[string]string{"a.yaml": ""}, ""},
		"no manifest":          {map[string]string{"c.md": "text"}, noFile},
		"values of a chart":    {map[string]string{"values.yaml": "a: b\n"}, noObject},
		"text":                 {map[string]string{"a.yaml": "text\n"}, noObject},
		"an object of no name": {map[string]string{"a.yaml": "apiVersion: v1\nkind: Pod\n"}, "the Pod has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, content := range tt.files {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			objects, err := ReadObjects([]string{folder}, nil)
			got := make([]string, 0, len(objects))
			for _, o := range objects {
				got = append(got, o.GetKind()+" "+o.GetName())
			}
			if found, ok := errors.AsType[*Error](err); ok {
				got = append(got, found.Problem)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.yaml")
	file, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	// A file with a hole: large, and quickly made.
	if err := errors.Join(file.Truncate(MaxFileBytes+1), file.Close()); err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat("{apiVersion: v1, kind: X}\n---\n", MaxObjects+1)
	manyFile := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(manyFile, []byte(many), 0o600); err != nil {
		t.Fatal(err)
	}
	padded := filepath.Join(t.TempDir(), "padded.yaml")
	if err := os.WriteFile(padded, []byte("apiVersion: v1\nkind: X\n"+strings.Repeat("#\n", MaxFileBytes/2-100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		paths []string
		want  string
	}{
		{"one file", []string{large}, "it is larger than 16 MiB"},
		{"all files", []string{padded, padded, padded, padded, padded}, "the files together are larger than 64 MiB"},
		{"objects", []string{manyFile}, "the files together hold more than 50000 objects"},
		// Aliases of aliases: few bytes that would unfold to very many.
		{"aliases", []string{writeAliases(t)}, "it is not valid YAML: document contains excessive aliasing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read(test.paths, strings.NewReader(""))
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("Read: %v, want %q", err, test.want)
			}
		})
	}
}

func writeAliases(t *testing.T) string {
	t.Helper()
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	path := filepath.Join(t.TempDir(), "aliases.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDecodeResponse(t *testing.T) {
	got, err := DecodeResponse("r.json", []byte(`{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "GenerateUpgradePlanResponse",
		"status": "Success", "controlPlaneUpgrades": [{"version": "1.30.0"}], "workersUpgrades": [{"version": "v1.30.0"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Response{ControlPlane: []version.Version{version.MustParse("v1.30.0")}, Workers: []version.Version{version.MustParse("v1.30.0")}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(version.Version{})); diff != "" {
		t.Errorf("DecodeResponse (-want +got):\n%s", diff)
	}
	_, err = DecodeResponse("r", []byte("status: Failure\nmessage: no image\n"))
	if failure, ok := errors.AsType[*FailureError](err); !ok || failure.Message != "no image" {
		t.Errorf("a failure: %v, want a *FailureError with its message", err)
	}
	for name, text := range map[string]string{
		"kind": "kind: Cluster\nstatus: Success", "apiVersion": "apiVersion: v1\nstatus: Success", "status": "status: Maybe",
		"type": "status: Success\ncontrolPlaneUpgrades: v1.30.0", "unknown": "status: Success\ncontrolplaneUpgrades: []",
		"workers": "status: Success\nworkersUpgrades: [{version: x}]", "list": "[]", "empty": "# nothing", "yaml": "a: [",
	} {
		_, err := DecodeResponse("r", []byte(text))
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%s: %v, want an *Error", name, err)
		}
	}
}

var seeds = []string{
	"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: c}\nspec: {topology: {classRef: {name: x}, version: v1.30.0, workers: {machineDeployments: [{name: a}]}}}\n",
	"apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: c}\nspec: {controlPlaneRef: {kind: X}, topology: {class: x, version: v1.30.0, controlPlane: {machineHealthCheck: {}}}}\n",
	"apiVersion: cluster.x-k8s.io/v1beta1\nkind: ClusterClass\nmetadata: {name: c}\nspec: {controlPlane: {machineHealthCheck: {unhealthyConditions: [{}]}}, workers: {machineDeployments: [{strategy: {rollingUpdate: {}}}]}}\n",
	"apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineDeployment\nmetadata: {name: c}\nspec: {strategy: {}}\nstatus: {conditions: [{}]}\n",
	"apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachinePool\nmetadata: {name: c}\nstatus: {v1beta2: {}}\n",
	"apiVersion: cluster.x-k8s.io/v1beta1\nkind: Machine\nmetadata: {name: c}\nspec: {nodeDrainTimeout: 5m}\n",
	"apiVersion: v1\nkind: List\nitems: [{}, {kind: List, items: []}, 3]\n",
	"apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterList\nitems: [{metadata: {name: c}}]\n",
	"apiVersion: windlass.dev/v1alpha1\nkind: UpgradeGraph\nmetadata: {name: g}\nspec: {versions: [v1.30.0]}\n",
	"apiVersion: x/v1\nkind: AControlPlane\nmetadata: {name: c, labels: {cluster.x-k8s.io/cluster-name: c}}\nspec: {version: v1.30.0}\nstatus: {versions: [{version: v1.29.0}]}\n",
	"{\"kind\": \"X\", \"apiVersion\": \"v1\"} {\"kind\": 3}",
	"--- {a: &a [*a]}\n...\n%YAML 3\n--- |\n ---\n", "\ufeff---\n-", "{{ .Values }}", "? [a]\n: b\n", "status: Failure",
}

// FuzzDecode checks what must hold for any bytes: no panic; errors of our type that name the file; every object of the set
// has an origin and a name; and whatever decodes can be looked up without a panic.
func FuzzDecode(f *testing.F) {
	for i, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(seeds[0] + "---\n" + seeds[(i+1)%len(seeds)] + "---\n" + s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, responseErr := DecodeResponse("f", data)
		checkError(t, responseErr)
		s := &Set{}
		if err := s.Decode("f", data); err != nil {
			checkError(t, err)
			return
		}
		all := make([]metav1.Object, 0, len(s.origins))
		all = appendObjects(all, s.Clusters)
		all = appendObjects(all, s.ClusterClasses)
		all = appendObjects(all, s.MachineDeployments)
		all = appendObjects(all, s.MachinePools)
		all = appendObjects(all, s.Machines)
		all = appendObjects(all, s.UpgradeGraphs)
		all = appendObjects(all, s.ControlPlanes)
		for _, o := range all {
			if origin, known := s.OriginOf(o); !known || origin.Document == 0 || o.GetName() == "" {
				t.Errorf("%q has origin %q (known: %v)", o.GetName(), origin, known)
			}
		}
		if len(all) != len(s.origins) {
			t.Errorf("%d objects have %d origins", len(all), len(s.origins))
		}
		for _, c := range s.Clusters {
			_, err := s.Cluster(c.Namespace, c.Name)
			checkError(t, err)
			_, err = s.ClusterClass(c)
			checkError(t, err)
			_, err = s.Objects(c)
			checkError(t, err)
		}
	})
}

func appendObjects[T metav1.Object](all []metav1.Object, objects []T) []metav1.Object {
	for _, o := range objects {
		all = append(all, o)
	}
	return all
}

func checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	_, broken := errors.AsType[*Error](err)
	_, failed := errors.AsType[*FailureError](err)
	if !broken && !failed {
		t.Errorf("error %v has type %T", err, err)
	}
	// The message of a failure is the extension's own.
	if !strings.HasPrefix(err.Error(), "f") || broken && strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q does not begin with the file, or has several lines", err)
	}
}

// TestUpdateObjects checks which objects about updates count for a Cluster, also where manifests leave the namespace out.
func TestUpdateObjects(t *testing.T) {
	s := decode(t, `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a}
---
{apiVersion: windlass.dev/v1alpha1, kind: UpdatePolicy, metadata: {name: here, namespace: team-a}}
---
{apiVersion: windlass.dev/v1alpha1, kind: UpdatePolicy, metadata: {name: anywhere}}
---
{apiVersion: windlass.dev/v1alpha1, kind: UpdatePolicy, metadata: {name: elsewhere, namespace: team-b}}
---
{apiVersion: windlass.dev/v1alpha1, kind: Updater, metadata: {name: kubeadm}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineHealthCheck, metadata: {name: old}, spec: {clusterName: prod}}
---
{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineHealthCheck, metadata: {name: other}, spec: {clusterName: test}}
---
{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, metadata: {name: cp}}
---
{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, metadata: {name: cp, namespace: team-b}}
`)
	cluster := s.Clusters[0]
	policies, updaters := s.UpdateObjects(cluster)
	var got []string
	for _, p := range policies {
		got = append(got, p.Namespace+"/"+p.Name)
	}
	for _, u := range updaters {
		got = append(got, u.Name)
	}
	for _, h := range s.HealthChecks(cluster) {
		got = append(got, h.Name)
	}
	if diff := cmp.Diff([]string{"team-a/here", "team-a/anywhere", "kubeadm", "old"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if s.UpdatePolicies[1].Namespace != "" {
		t.Error("the set has changed")
	}
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "team-a"}}
	class.Spec.ControlPlane.TemplateRef = clusterv1.ClusterClassTemplateReference{Kind: "KubeadmControlPlaneTemplate", Name: "cp"}
	if got := s.ControlPlaneTemplate(class); got == nil || got.GetNamespace() != "" {
		t.Errorf("the template of the class is %v", got)
	}
	class.Spec.ControlPlane.TemplateRef.Name = "none"
	if got := s.ControlPlaneTemplate(class); got != nil {
		t.Errorf("the template of the class is %v, want none", got)
	}
	for _, kind := range []string{"UpdatePolicy", "Updater", "UpgradeGraph"} {
		err := (&Set{}).Decode("f", []byte("{apiVersion: windlass.dev/v2, kind: "+kind+", metadata: {name: x}}"))
		if err == nil || !strings.Contains(err.Error(), "apiVersion: it must be windlass.dev/v1alpha1") {
			t.Errorf("%s of another version: %v", kind, err)
		}
	}
}
