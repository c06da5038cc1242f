package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestAutoscaler: a cluster autoscaler counts for a group whose machines are replaced, and that it can scale.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		least, most string
		replaced    bool
		want        string
	}{
		"a kept group":     {least: "2", most: "8"},
		"a replaced group": {least: "2", most: "8", replaced: true, want: "MachineDeployment prod-md-0: a cluster autoscaler may scale it (2 to 8 machines) while its machines are replaced"},
		"equal bounds":     {least: "3", most: "3", replaced: true},
		"no bounds":        {replaced: true},
		"no numbers":       {least: "two", most: "8", replaced: true},
	} {
		f := healthy()
		f.Objects.MachineDeployments[0].Annotations = map[string]string{
			clusterv1.AutoscalerMinSizeAnnotation: tt.least, clusterv1.AutoscalerMaxSizeAnnotation: tt.most,
		}
		if tt.replaced {
			f.Policies = f.Policies[:1]
			f.Policies[0].Spec.Targets = []v1alpha1.UpdateTarget{{ControlPlane: true}}
		}
		var got string
		found, _ := Examine(f)
		for _, finding := range found {
			if finding.ID == CheckAutoscaler && finding.Severity == Warning {
				got, _, _ = strings.Cut(finding.Subject+": "+finding.Message, ": drained")
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		off := f
		off.AutoscalersOff = true
		if scaled := off.Scaled(); len(scaled) > 0 {
			t.Errorf("%s: without an autoscaler that acts: %+v", name, scaled)
		}
		if scaled := f.Scaled(); len(scaled) > 0 != (tt.want != "") || len(scaled) > 0 && scaled[0].Group != "md-0" {
			t.Errorf("%s: %+v", name, scaled)
		}
	}
}

// TestAutoscalersOff: only Deployments that are there, and of which none removes machines, silence the check.
func TestAutoscalersOff(t *testing.T) {
	t.Parallel()
	runs := appsv1.Deployment{}
	runs.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--cloud-provider=clusterapi"}}}
	stopped, scaled, keeps := *runs.DeepCopy(), *runs.DeepCopy(), *runs.DeepCopy()
	stopped.Spec.Replicas, scaled.Spec.Replicas = new(int32(0)), new(int32(2))
	keeps.Spec.Template.Spec.Containers[0].Args = append(keeps.Spec.Template.Spec.Containers[0].Args, "--scale-down-enabled=false")
	for name, tt := range map[string]struct {
		deployments []appsv1.Deployment
		want        bool
	}{
		"none":               {},
		"one runs":           {deployments: []appsv1.Deployment{runs}},
		"two of it":          {deployments: []appsv1.Deployment{scaled}},
		"stopped":            {deployments: []appsv1.Deployment{stopped}, want: true},
		"it scales nothing":  {deployments: []appsv1.Deployment{keeps}, want: true},
		"one of two stopped": {deployments: []appsv1.Deployment{stopped, runs}},
	} {
		if got := AutoscalersOff(tt.deployments); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
