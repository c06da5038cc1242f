package topology_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/topology"
)

// revert is a world in which the topology of the group a has changed. A MachineSet of the templates
// before the change is still there.
type revert struct {
	*world
	// set, infrastructure and bootstrap are the earlier MachineSet and its templates.
	set                       *clusterv1.MachineSet
	infrastructure, bootstrap *unstructured.Unstructured
}

// changed returns a world after a change of the infrastructure template of the group a.
func changed(t *testing.T) *revert {
	t.Helper()
	w := steady(t, fixture("full"))
	_, current := w.read()
	a := current.MachineDeployments["a"]
	r := &revert{world: w, set: w.putSet("earlier", a.Object, 2),
		infrastructure: a.InfrastructureMachineTemplate, bootstrap: a.BootstrapTemplate}
	w.setZone("z8")
	w.apply()
	if w.group().InfrastructureMachineTemplate.GetName() == r.infrastructure.GetName() {
		t.Fatal("the change has rotated no template")
	}
	w.putSet("later", w.group().Object, 1)
	w.events = nil
	return r
}

// putSet creates a MachineSet of the template that a MachineDeployment has now.
func (w *world) putSet(
	setName string, md *clusterv1.MachineDeployment, replicas int32,
) *clusterv1.MachineSet {
	w.t.Helper()
	kind := clusterv1.GroupVersion.WithKind("MachineDeployment")
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: md.Namespace, Name: setName,
			Labels:          map[string]string{clusterv1.MachineDeploymentNameLabel: md.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(md, kind)},
		},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: w.Key.Name, Replicas: &replicas, Template: *md.Spec.Template.DeepCopy(),
		},
	}
	if err := w.Inner.Create(w.t.Context(), set); err != nil {
		w.t.Fatal(err)
	}
	return set
}

func (w *world) setZone(zone string) {
	w.t.Helper()
	cluster := w.Cluster()
	cluster.Spec.Topology.Variables[0].Value.Raw = []byte(`"` + zone + `"`)
	if err := w.Inner.Update(w.t.Context(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

// apply reconciles at the first version, and returns the writes.
func (w *world) apply() []string {
	w.t.Helper()
	if _, err := w.reconcile(everywhere(w.Cluster(), "v1.31.0"), topology.ApplyOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return w.Take()
}

// group reads the group a. Its templates exist.
func (w *world) group() groupState {
	w.t.Helper()
	_, current := w.read()
	a := current.MachineDeployments["a"]
	machine := a.Object.Spec.Template.Spec
	for _, template := range []*unstructured.Unstructured{
		a.InfrastructureMachineTemplate, a.BootstrapTemplate,
	} {
		if template == nil {
			w.t.Fatalf("a template is missing; the references are %s and %s",
				machine.InfrastructureRef.Name, machine.Bootstrap.ConfigRef.Name)
		}
	}
	return groupState{a.Object, a.InfrastructureMachineTemplate, a.BootstrapTemplate}
}

type groupState struct {
	Object                                           *clusterv1.MachineDeployment
	InfrastructureMachineTemplate, BootstrapTemplate *unstructured.Unstructured
}

func (w *world) delete(object client.Object) {
	w.t.Helper()
	if err := w.Inner.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// checkImage fails the test unless the group a has the content of a zone, and nothing is left to
// write.
func (w *world) checkImage(zone string) {
	w.t.Helper()
	image := field(w.group().InfrastructureMachineTemplate, "spec", "template", "spec", "image")
	if image != "md-v1.31.0-"+zone {
		w.t.Errorf("the image is %s, want that of zone %s", image, zone)
	}
	if writes := w.apply(); slices.ContainsFunc(writes, isWrite) {
		w.t.Errorf("there is something left to write: %s", writes)
	}
}

func isWrite(request string) bool { return !strings.HasPrefix(request, "dry-run ") }

// TestApplyReturnsToEarlierTemplates sets a variable back. The MachineDeployment refers to the
// template of the earlier MachineSet again if that is exactly what a rotation would write, and will
// stay.
func TestApplyReturnsToEarlierTemplates(t *testing.T) {
	spec := func(set *clusterv1.MachineSet) *clusterv1.MachineSpec { return &set.Spec.Template.Spec }
	keep := []string{"somebody.example/finalizer"}
	for _, test := range []struct {
		name    string
		change  func(r *revert)
		returns bool
	}{
		{"unchanged", func(*revert) {}, true},
		{"a label that somebody has added to the template", func(r *revert) {
			r.update(r.infrastructure, func() {
				labels := r.infrastructure.GetLabels()
				labels["somebody.example/label"] = "x"
				r.infrastructure.SetLabels(labels)
			})
		}, true},
		{"Machines that leave", func(r *revert) {
			r.update(r.set, func() {
				r.set.Spec.Replicas, r.set.Status.Replicas = new(int32(0)), new(int32(1))
			})
		}, true},
		{"all Machines moved, and one has not begun", func(r *revert) {
			r.update(r.set, func() { r.set.Spec.Replicas = new(int32(0)) })
			r.putMoved("earlier", "")
		}, true},
		{"all Machines moved, and all have begun", func(r *revert) {
			r.update(r.set, func() { r.set.Spec.Replicas = new(int32(0)) })
			r.putMoved("earlier", v1alpha1.UpdateProgressAnnotation)
		}, false},
		{"all Machines moved from another MachineSet", func(r *revert) {
			r.update(r.set, func() { r.set.Spec.Replicas = new(int32(0)) })
			r.putMoved("another", "")
		}, false},
		{"no Machines", func(r *revert) {
			r.update(r.set, func() { r.set.Spec.Replicas = new(int32(0)) })
		}, false},
		{"a MachineSet in deletion", func(r *revert) {
			r.update(r.set, func() { r.set.Finalizers = keep })
			r.delete(r.set)
		}, false},
		{"no MachineSet", func(r *revert) { r.delete(r.set) }, false},
		{"a MachineSet of another owner", func(r *revert) {
			r.update(r.set, func() { r.set.OwnerReferences[0].UID = "other" })
		}, false},
		{"another version", func(r *revert) {
			r.update(r.set, func() { spec(r.set).Version = "v1.30.0" })
		}, false},
		{"another failure domain", func(r *revert) {
			r.update(r.set, func() { spec(r.set).FailureDomain = "fd7" })
		}, false},
		{"another bootstrap template", func(r *revert) {
			r.update(r.set, func() { spec(r.set).Bootstrap.ConfigRef.Name = "other" })
		}, false},
		{"another kind of infrastructure", func(r *revert) {
			r.update(r.set, func() { spec(r.set).InfrastructureRef.Kind = "OtherMachineTemplate" })
		}, false},
		{"no template", func(r *revert) { r.delete(r.infrastructure) }, false},
		{"a template in deletion", func(r *revert) {
			r.update(r.infrastructure, func() { r.infrastructure.SetFinalizers(keep) })
			r.delete(r.infrastructure)
		}, false},
		{"a template of somebody", func(r *revert) {
			r.update(r.infrastructure, func() { r.infrastructure.SetLabels(nil) })
		}, false},
		{"a field that somebody has added to the template", func(r *revert) {
			r.setField(r.infrastructure, "x", "spec", "template", "spec", "somebody")
		}, false},
		{"a field of ours that somebody has changed", func(r *revert) {
			r.setField(r.infrastructure, "other", "spec", "template", "spec", "image")
		}, false},
		{"a label of ours that somebody has changed", func(r *revert) {
			r.setField(r.infrastructure, "b", "metadata", "labels",
				clusterv1.ClusterTopologyMachineDeploymentNameLabel)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := changed(t)
			test.change(r)
			templates := r.count("DevMachineTemplate")
			r.setZone("z1")
			writes := r.apply()
			is := r.group()
			back := is.InfrastructureMachineTemplate.GetName() == r.infrastructure.GetName()
			if back != test.returns {
				t.Errorf("the MachineDeployment refers to the earlier template: %t, want %t; wrote %s",
					back, test.returns, writes)
			}
			if is.BootstrapTemplate.GetName() != r.bootstrap.GetName() {
				t.Error("the bootstrap template, whose content is the same, was rotated")
			}
			if test.returns {
				if got := r.count("DevMachineTemplate"); got != templates {
					t.Errorf("%d templates became %d", templates, got)
				}
				if !slices.ContainsFunc(r.events, func(event string) bool {
					return strings.HasPrefix(event, "TopologyUpdate Updated MachineDeployment") &&
						strings.HasSuffix(event, ` back to the templates of MachineSet "earlier"`)
				}) {
					t.Errorf("Events: %q", r.events)
				}
			}
			r.checkImage("z1")
		})
	}
}

// putMoved creates a Machine that has moved from one MachineSet to the one of the change, with an
// annotation more.
func (r *revert) putMoved(from, annotation string) {
	r.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.set.Namespace, Name: "moved", Labels: r.set.Labels,
	}}
	m.Annotations = map[string]string{
		v1alpha1.MovedFromAnnotation:         pool.MovedFrom(m, from, "later"),
		clusterv1.UpdateInProgressAnnotation: "",
	}
	if annotation != "" {
		m.Annotations[annotation] = "{}"
	}
	if err := r.Inner.Create(r.t.Context(), m); err != nil {
		r.t.Fatal(err)
	}
}

func (w *world) setField(object *unstructured.Unstructured, value string, path ...string) {
	w.t.Helper()
	w.update(object, func() {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			w.t.Fatal(err)
		}
	})
}

// TestApplyReturnsToBothTemplates sets a topology back that has rotated both templates. One
// MachineSet must have both.
func TestApplyReturnsToBothTemplates(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(w *world, was groupState)
		returns bool
	}{
		{"one MachineSet has both", func(w *world, was groupState) {
			w.putSet("both", was.Object, 1)
		}, true},
		{"each has one", func(w *world, was groupState) {
			for i, setName := range []string{"infrastructure", "bootstrap"} {
				md, is := was.Object.DeepCopy(), w.group().Object.Spec.Template.Spec
				if i == 0 {
					md.Spec.Template.Spec.Bootstrap = is.Bootstrap
				} else {
					md.Spec.Template.Spec.InfrastructureRef = is.InfrastructureRef
				}
				w.putSet(setName, md, 1)
			}
		}, false},
		{"the content of one is another", func(w *world, was groupState) {
			w.putSet("both", was.Object, 1)
			w.setField(was.BootstrapTemplate, "other", "spec", "template", "spec", "topology")
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := steady(t, fixture("full"))
			was := w.group()
			w.setTopologyVersion("v1.32.0")
			w.setZone("z8")
			w.apply()
			is := w.group()
			if is.BootstrapTemplate.GetName() == was.BootstrapTemplate.GetName() ||
				is.InfrastructureMachineTemplate.GetName() == was.InfrastructureMachineTemplate.GetName() {
				t.Fatal("the change has not rotated both templates")
			}
			test.change(w, was)
			w.setTopologyVersion("v1.31.0")
			w.setZone("z1")
			w.apply()
			is = w.group()
			returned := []bool{
				is.InfrastructureMachineTemplate.GetName() == was.InfrastructureMachineTemplate.GetName(),
				is.BootstrapTemplate.GetName() == was.BootstrapTemplate.GetName(),
			}
			if diff := cmp.Diff([]bool{test.returns, test.returns}, returned); diff != "" {
				t.Errorf("templates that are the earlier ones (-want +got):\n%s", diff)
			}
			w.checkImage("z1")
		})
	}
}

// TestApplyAfterTheEarlierTemplateIsGone deletes the earlier template at every point of the return
// to it, as the controller of MachineSets does with the last MachineSet. The next reconciliations
// end with a new template. A failure in the middle of them creates no second one.
func TestApplyAfterTheEarlierTemplateIsGone(t *testing.T) {
	points := []string{"dry-run DevMachineTemplate", "apply MachineDeployment", "afterwards"}
	for _, point := range points {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s fails=%t", point, fails), func(t *testing.T) {
				r := changed(t)
				r.setZone("z1")
				gone := false
				r.Fail = func(verb, kind string) (error, bool) {
					// The first dry runs are of the template that is replaced.
					if verb+" "+kind == point && r.LastName == r.wantName(point) && !gone {
						gone = true
						r.delete(r.infrastructure)
					}
					return nil, false
				}
				_, err := r.reconcile(everywhere(r.Cluster(), "v1.31.0"), topology.ApplyOptions{})
				if early := strings.HasPrefix(point, "dry-run"); (err != nil) != early {
					t.Fatalf("error %v in the reconciliation in which the template goes", err)
				}
				if !gone {
					r.delete(r.infrastructure)
				}
				templates := r.count("DevMachineTemplate")
				if fails {
					r.failOnce("MachineDeployment")
				}
				r.Fail = nil
				r.apply()
				if got := r.count("DevMachineTemplate"); got != templates+1 {
					t.Errorf("%d templates became %d, want one more", templates, got)
				}
				r.checkImage("z1")
			})
		}
	}
}

// wantName is the name of the object that is written at a point of a return.
func (r *revert) wantName(point string) string {
	if strings.HasSuffix(point, "MachineDeployment") {
		return r.set.Labels[clusterv1.MachineDeploymentNameLabel]
	}
	return r.infrastructure.GetName()
}

// failOnce reconciles in a process whose write of a kind is lost, and that ends then.
func (w *world) failOnce(kind string) {
	w.t.Helper()
	w.Fail = func(verb, failing string) (error, bool) {
		if verb == "apply" && failing == kind {
			return errLost, false
		}
		return nil, false
	}
	if _, err := w.reconcile(everywhere(w.Cluster(), "v1.31.0"), topology.ApplyOptions{}); err == nil {
		w.t.Fatalf("the write of the %s was not lost", kind)
	}
	w.Fail = nil
	w.restart()
}

// TestReadCurrentOfAnOldCache reads a MachineDeployment whose template only the cache does not
// show. A template in its place would update all machines.
func TestReadCurrentOfAnOldCache(t *testing.T) {
	w := steady(t, fixture("full"))
	blueprint, current := w.read()
	missing := w.group().BootstrapTemplate
	objects, err := topology.New(topology.ObjectOptions{
		Client: interceptor.NewClient(w.Client, interceptor.Funcs{Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			if key == client.ObjectKeyFromObject(missing) {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return c.Get(ctx, key, object, options...)
		}}),
		APIReader: w.Client, Runtime: patcher{}, Recorder: w, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = objects.ReadCurrent(t.Context(), current.Cluster, blueprint)
	if !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want NotFound", err)
	}
	if writes := w.Take(); len(writes) > 0 {
		t.Errorf("reading wrote %s", writes)
	}
}

// TestReadCurrentWithoutATemplateInUse deletes a template of Machines. That is an error with a fix,
// until the MachineSet of the Machines is being deleted.
func TestReadCurrentWithoutATemplateInUse(t *testing.T) {
	for _, kind := range []string{"DevMachineTemplate", "KubeadmConfigTemplate"} {
		t.Run(kind, func(t *testing.T) {
			w := steady(t, fixture("full"))
			blueprint, current := w.read()
			a := current.MachineDeployments["a"]
			set := w.putSet("using", a.Object, 1)
			owner := metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))
			machine := metav1.ObjectMeta{
				Namespace: set.Namespace, Name: "machine", Labels: set.Labels,
				OwnerReferences: []metav1.OwnerReference{*owner},
			}
			if err := w.Inner.Create(t.Context(), &clusterv1.Machine{ObjectMeta: machine}); err != nil {
				t.Fatal(err)
			}
			template := a.InfrastructureMachineTemplate
			if kind == "KubeadmConfigTemplate" {
				template = a.BootstrapTemplate
			}
			w.delete(template)
			_, err := w.objects.ReadCurrent(t.Context(), current.Cluster, blueprint)
			if !apierrors.IsNotFound(err) ||
				!strings.Contains(err.Error(), "MachineSet using has Machines of it. Fix: ") {
				t.Errorf("error %v, want NotFound with the MachineSet and a fix", err)
			}
			w.update(set, func() { set.Finalizers = []string{"somebody.example/finalizer"} })
			w.delete(set)
			w.apply()
			w.checkImage("z1")
		})
	}
}

// TestApplyChangesAgainAfterAReturn makes the same change twice, with a return in between. The
// template of the first change may go with its MachineSet, so the second change writes another one.
func TestApplyChangesAgainAfterAReturn(t *testing.T) {
	r := changed(t)
	first := r.group().InfrastructureMachineTemplate.GetName()
	r.setZone("z1")
	r.apply()
	later := metav1.ObjectMeta{Namespace: r.set.Namespace, Name: "later"}
	r.delete(&clusterv1.MachineSet{ObjectMeta: later})
	md := r.group().Object
	r.update(md, func() { md.Annotations[clusterv1.RevisionAnnotation] = "3" })
	r.setZone("z8")
	r.apply()
	got := r.group().InfrastructureMachineTemplate.GetName()
	if got == first || got == r.infrastructure.GetName() {
		t.Errorf("the template is %s again", got)
	}
	r.checkImage("z8")
}
