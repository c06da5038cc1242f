package bounds

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managed is how many MachineDeployments and policies there are when the manager runs, many how many
// objects of a kind that only the manager reads.
const managed, many = 20, 5

// runManager starts `windlass manager` with all its controllers, and the rows of its handlers.
// Cluster API's manifest has no limit of memory: the manager keeps the extension's.
func runManager(t *testing.T, w *world) *program {
	t.Helper()
	m, plane := newMeter(t, w.plane)
	p := &program{
		process: plane.RunManager(t, "--in-place-upgrades", "--feature-gates="+
			"ClusterTopology=true,RuntimeSDK=true,InPlaceUpdates=true,MachinePool=true"),
		meter: m, requests: admissions, denied: hostileNames,
		reconcilers: managerReconcilers, sends: managerSends(), copies: 20,
	}
	p.at = func(path string) string { return p.process.Webhooks + path }
	client := p.process.Client(t, nil)
	small := w.deployment("other", false)
	small.TypeMeta, small.Namespace = typeOf("MachineDeployment"), w.other.Namespace
	review := reviewOf(t, admissionv1.Create, small)
	p.asOther = func(ctx context.Context) (int, []byte, error) {
		return p.process.Post(ctx, client, p.at(validate("cluster", "machinedeployment")), review)
	}
	return p
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: kind}
}

func mutate(group, kind string) string   { return path("mutate", group, kind) }
func validate(group, kind string) string { return path("validate", group, kind) }
func path(verb, group, kind string) string {
	return "/" + verb + "-" + strings.TrimPrefix(group+"-cluster-x-k8s-io-v1beta2-", "cluster-") + kind
}

// admissions returns the largest request of each webhook of the manager, by its path.
var admissions = func() map[string]func(*testing.T, *world) any {
	machine := func(w *world) client.Object { return w.machine("m-0") }
	deployment := func(w *world) client.Object { return w.deployment("md-0", true) }
	set := func(w *world) client.Object { return w.set("ms-0") }
	pool := func(w *world) client.Object { return w.machinePool("mp-0") }
	check := func(w *world) client.Object { return w.healthCheck("mhc-0") }
	resources := func(w *world) client.Object { return w.resourceSet("crs-0") }
	binding := func(w *world) client.Object { return w.binding("c") }
	extension := func(w *world) client.Object { return w.extensionConfig() }
	return map[string]func(*testing.T, *world) any{
		"/convert": conversion,

		mutate("addons", "clusterresourceset"):          admitting(resources),
		mutate("cluster", "cluster"):                    admitting((*world).classy),
		mutate("cluster", "machine"):                    admitting(machine),
		mutate("cluster", "machinedeployment"):          admitting(deployment),
		mutate("cluster", "machinehealthcheck"):         admitting(check),
		mutate("cluster", "machinepool"):                admitting(pool),
		mutate("cluster", "machineset"):                 admitting(set),
		mutate("runtime", "extensionconfig"):            admitting(extension),
		validate("addons", "clusterresourceset"):        admitting(resources),
		validate("addons", "clusterresourcesetbinding"): admitting(binding),
		validate("cluster", "cluster"):                  admitting((*world).classy),
		validate("cluster", "clusterclass"):             admitting((*world).largestClass),
		validate("cluster", "machine"):                  admitting(machine),
		validate("cluster", "machinedeployment"):        admitting(deployment),
		validate("cluster", "machinedrainrule"):         admitting((*world).drainRule),
		validate("cluster", "machinehealthcheck"):       admitting(check),
		validate("cluster", "machinepool"):              admitting(pool),
		validate("cluster", "machineset"):               admitting(set),
		validate("ipam", "ipaddress"):                   admitting((*world).address),
		validate("ipam", "ipaddressclaim"):              admitting((*world).claim),
		validate("runtime", "extensionconfig"):          admitting(extension),
	}
}()

// admitting returns a review of the creation of an object, with annotations as large as a request of
// the API server.
func admitting(object func(*world) client.Object) func(*testing.T, *world) any {
	return func(t *testing.T, w *world) any {
		t.Helper()
		o := object(w)
		o.SetAnnotations(map[string]string{"filler": filler(3 << 20)})
		return reviewOf(t, admissionv1.Create, o)
	}
}

// conversion asks for the Cluster of the first tenant in an older version.
func conversion(t *testing.T, w *world) any {
	t.Helper()
	cluster := w.classy()
	cluster.SetAnnotations(map[string]string{"filler": filler(3 << 20)})
	return apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{
			APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "ConversionReview",
		},
		Request: &apiextensionsv1.ConversionRequest{
			UID: "bounds", DesiredAPIVersion: clusterv1.GroupVersion.Group + "/v1beta1",
			Objects: []runtime.RawExtension{{Raw: encoded(t, cluster)}},
		},
	}
}

// hostileNames returns a review of an object whose template of names writes 300 MB of text, which one
// execution of the template would take from the process.
var hostileNames = map[string]func(*testing.T, *world) any{
	validate("cluster", "machinedeployment"): func(t *testing.T, w *world) any {
		t.Helper()
		md := w.deployment("hostile", false)
		md.TypeMeta, md.Spec.MachineNaming.Template = typeOf("MachineDeployment"), endless
		return reviewOf(t, admissionv1.Create, md)
	},
	validate("cluster", "machineset"): func(t *testing.T, w *world) any {
		t.Helper()
		set := w.set("hostile")
		set.Spec.MachineNaming.Template = endless
		return reviewOf(t, admissionv1.Create, set)
	},
}

const endless = "{{ range 300000000 }}x{{ end }}{{ .random }}"

// managerSends returns what the reconcilers of the manager may send to the API server. They list and
// watch each kind once, and then write at most once to the object that they reconcile.
func managerSends() map[string]sent {
	const lists, objects = 6, 40
	all := slices.Collect(maps.Keys(managerReconcilers))
	ofClusters, ofTopology := []string{"clustercache", "cluster"}, []string{"topology/cluster"}
	ofSets := []string{"machinedeployment"}
	ofTemplates := []string{"clusterclass", "topology/cluster", "machinedeployment"}
	rows := map[string]sent{
		"discovery": {once: 20, size: small},
		// A ClusterResourceSet names as many as it may, and applies them to each of two Clusters.
		"get configmaps": {
			once: slack, per: 2 * resources, by: []string{"clusterresourceset"}, size: small,
		},
		"get secrets":               {once: slack, per: 2, by: ofClusters, size: small},
		"list machines":             {once: 2*managed + slack, with: live, size: large},
		"get clusters":              {once: slack, with: live, size: 2 * large},
		"get machinedeployments":    {once: 4*managed + slack, size: large},
		"get machines":              {once: slack, per: 1, by: ofMachines, size: large},
		"get devmachines":           {once: slack, per: 1, by: []string{"machine", "machinepool"}, size: small},
		"list machinesets":          {once: slack, per: 1, by: ofSets, size: objects * large},
		"list machinedeployments":   {once: lists, per: 1, by: ofTopology, size: objects * large},
		"list kubeadmcontrolplanes": {once: lists, per: 1, by: ofTopology, size: small},
		"post events":               {once: slack, per: 1, by: all, size: small},
		"patch events":              {once: slack, per: 1, by: all, size: small},
	}
	for _, kind := range []struct {
		resource string
		size     int64
		by       []string
	}{
		{"clusters", 2 * large, append(ofBoth, "cluster", "topology/cluster", "clustercache")},
		{"clusterclasses", 4 * large, []string{"clusterclass", "topology/cluster"}},
		{"clusterresourcesets", 2 * small, []string{"clusterresourceset"}},
		{"clusterresourcesetbindings", small, []string{"clusterresourceset", "clusterresourcesetbinding"}},
		{"customresourcedefinitions", 4 * small, []string{"crdmigrator"}},
		{"extensionconfigs", 2 * large, []string{"extensionconfig", "extensionconfig-conflicts"}},
		{"machinedeployments", large, append(ofGroups, "machinedeployment", "topology/machinedeployment")},
		{"machinehealthchecks", 2 * small, []string{"machinehealthcheck"}},
		{"machinepools", large, []string{"machinepool"}},
		{"machines", large, append(ofMachines, "machine")},
		{"machinesets", large, []string{"machineset", "machinedeployment", "topology/machineset"}},
		{"devmachines", small, []string{"machine", "machinepool"}},
		{"kubeadmconfigs", small, []string{"machine"}},
		// The rest is read by its metadata, or has no reconciler here.
		{"configmaps", small, nil}, {"secrets", small, nil},
		{"ipaddressclaims", small, nil}, {"ipaddresses", small, nil}, {"namespaces", small, nil},
		{"machinedrainrules", 4 * small, nil}, {"updatepolicies", 2 * small, nil}, {"updaters", 2 * small, nil},
		{"upgradegraphs", small, nil}, {"upgradegates", small, nil},
		{"devclustertemplates", small, ofTemplates},
		{"devmachinetemplates", small, ofTemplates},
		{"kubeadmconfigtemplates", small, ofTemplates},
		{"kubeadmcontrolplanetemplates", small, ofTemplates},
	} {
		add := func(of string, row sent) {
			if _, known := rows[of]; !known {
				rows[of] = row
			}
		}
		// Repeated reads come from caches.
		add("get "+kind.resource, sent{once: slack, size: kind.size})
		for _, verb := range []string{"post ", "patch ", "delete "} {
			write := sent{once: slack, per: 1, by: kind.by, size: kind.size}
			add(verb+kind.resource, write)
			add(verb+kind.resource+"/status", write)
		}
		for _, verb := range []string{"list ", "watch "} {
			add(verb+kind.resource, sent{once: lists, size: objects * kind.size})
		}
	}
	return rows
}

// managerReconcilers look at the objects of newWorld and addForManager. Those of machines and their
// groups look again and again, because nobody provides the machines.
var managerReconcilers = map[string]reconciler{
	"cluster":                    {2, 200, nil},
	"clustercache":               {2, 200, nil},
	"clusterclass":               {1, 50, nil},
	"clusterresourceset":         {1, 50, nil},
	"clusterresourcesetbinding":  {1, 200, nil},
	"crdmigrator":                {1, 200, nil},
	"extensionconfig":            {1, 50, nil},
	"extensionconfig-conflicts":  {1, 50, nil},
	"machine":                    {managed / 2, 0, nil},
	"machinedeployment":          {managed, 0, nil},
	"machinehealthcheck":         {many, 0, nil},
	"machinepool":                {many, 0, nil},
	"machineset":                 {many, 0, nil},
	"topology/cluster":           {1, 200, nil},
	"topology/machinedeployment": {1, 200, nil},
	"topology/machineset":        {1, 200, nil},
	"in-place-upgrade-machine":   {managed / 2, 0, machinesAnswered},
	"in-place-upgrade-group":     {managed / 2, 0, groupsAnswered},
	"in-place-upgrade-kinds":     {1, 50, nil},
}
