package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		if scaled := f.Scaled(); len(scaled) > 0 != (tt.want != "") || len(scaled) > 0 && scaled[0].Group != "md-0" {
			t.Errorf("%s: %+v", name, scaled)
		}
	}
}
