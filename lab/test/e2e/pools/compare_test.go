package pools_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// kinds are those of a pool's objects, with their API groups.
func kinds() map[string]string {
	return map[string]string{
		kindDeployment: clusterv1.GroupVersion.Group, kindSet: clusterv1.GroupVersion.Group,
		"Machine":    clusterv1.GroupVersion.Group,
		"DevMachine": "infrastructure.cluster.x-k8s.io", "KubeadmConfig": "bootstrap.cluster.x-k8s.io",
	}
}

// list reads the objects of one of kinds from the API server. It returns none if ctx has ended.
func (p *plane) list(ctx context.Context, t *testing.T, kind string) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: kinds()[kind], Version: clusterv1.GroupVersion.Version, Kind: kind + "List",
	})
	if err := p.Client.List(ctx, list, client.InNamespace(rig.PoolsCluster)); err != nil &&
		ctx.Err() == nil {
		t.Fatal(err)
	}
	return list.Items
}

// shape returns a pool's objects as lines of text: without times and counters of writes, and with the
// same names for all pools. The objects of two pools with the same shape differ in nothing else.
func (p *plane) shape(ctx context.Context, t *testing.T, pool string) []string {
	t.Helper()
	var objects []unstructured.Unstructured
	for kind := range kinds() {
		for _, o := range p.list(ctx, t, kind) {
			if o.GetName() == pool || o.GetLabels()[clusterv1.MachineDeploymentNameLabel] == pool {
				objects = append(objects, o)
			}
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	names := placeholders(pool, objects)
	var found []string
	for _, o := range objects {
		lines := flatten(o.GetKind(), clean(o.Object))
		for i, line := range lines {
			lines[i] = uids.ReplaceAllString(names.Replace(line), "UID")
		}
		slices.Sort(lines)
		found = append(found, strings.Join(lines, "\n"))
	}
	slices.Sort(found)
	return strings.Split(strings.Join(found, "\n"), "\n")
}

var uids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// placeholders replaces the names that differ between pools. Longer ones come first.
func placeholders(pool string, objects []unstructured.Unstructured) *strings.Replacer {
	names := map[string]string{pool: "POOL"}
	for _, o := range objects {
		if o.GetName() != pool {
			names[o.GetName()] = strings.ToUpper(o.GetKind())
			if o.GetKind() == "DevMachine" || o.GetKind() == "KubeadmConfig" {
				names[o.GetName()] = "MACHINE"
			}
		}
		if hash := o.GetLabels()[clusterv1.MachineDeploymentUniqueLabel]; hash != "" {
			names[hash] = "HASH"
		}
	}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var pairs []string
	for _, name := range sorted {
		pairs = append(pairs, name, names[name])
	}
	return strings.NewReplacer(pairs...)
}

// dropped are the fields that differ from run to run. Managed fields have "." for whoever created
// a map: the programs of both engines have different names on a plane, and the entry of the first
// one goes when the other one owns all that it had written.
func dropped(key string) bool {
	return slices.Contains([]string{
		"uid", "resourceVersion", "generation", "observedGeneration", "creationTimestamp",
		"lastTransitionTime", "time",
		"lastUpdated", "token", "machineID", "systemUUID", "bootID", "addresses",
		"certificatesExpiryDate", "dataSecretCreated", ".",
	}, key)
}

// clean returns a value without what differs from run to run. Managed fields are by manager.
func clean(value any) any {
	switch v := value.(type) {
	case map[string]any:
		cleaned := map[string]any{}
		for key, field := range v {
			if dropped(key) {
				continue
			}
			cleaned[key] = clean(field)
			if slices.Contains([]string{v1alpha1.LastUpdateAnnotation, v1alpha1.UpdateDecisionsAnnotation},
				key) {
				cleaned[key] = "any"
			}
		}
		return cleaned
	case []any:
		keyed := map[string]any{}
		for i, item := range v {
			key := keyOf(i, item)
			keyed[key] = merge(keyed[key], clean(item))
		}
		return keyed
	default:
		return v
	}
}

// releasedManager is the field manager of stock Cluster API's core manager where it writes
// without a name of its own.
const releasedManager = "manager"

// merge returns what either value has: of two field managers that are one in a release.
func merge(a, b any) any {
	one, ok := a.(map[string]any)
	two, also := b.(map[string]any)
	if !ok || !also {
		return b
	}
	for key, field := range two {
		one[key] = merge(one[key], field)
	}
	return one
}

// keyOf names an item of a list by what identifies it.
func keyOf(i int, item any) string {
	object, ok := item.(map[string]any)
	if !ok {
		return fmt.Sprint(item)
	}
	if manager, ok := object["manager"]; ok {
		// Cluster API's releases name the core manager's program "manager", as Windlass names its
		// own manager.
		if manager == devplane.CoreManager {
			object["manager"] = releasedManager
		}
		return fmt.Sprintf("%v/%v/%v", object["manager"], object["operation"], object["subresource"])
	}
	for _, key := range []string{"type", "kind", "name", "version"} {
		if value, ok := object[key]; ok {
			return fmt.Sprint(value)
		}
	}
	return fmt.Sprint(i)
}

// flatten returns one line for each leaf.
func flatten(path string, value any) []string {
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		data, _ := json.Marshal(value) // It was JSON.
		return []string{path + " = " + string(data)}
	}
	var lines []string
	for key, field := range object {
		lines = append(lines, flatten(path+"."+key, field)...)
	}
	return lines
}

// settleTime bounds the wait for the last writes about a pool that has arrived.
const settleTime = 45 * time.Second

// awaitShape waits until the objects of a pool have a shape, which is that of another pool, like.
func (p *plane) awaitShape(
	ctx context.Context, t *testing.T, pool, like string, shape func() []string,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	diff := "they were not read"
	if err := p.History.Until(ctx, func() string {
		want, got := shape(), p.shape(ctx, t, pool)
		if want != nil && got != nil {
			diff = gocmp.Diff(want, got)
		}
		return diff
	}); err != nil {
		t.Errorf("the objects of pool %s differ from those of %s (-want +got):\n%s", pool, like, diff)
	}
}
