package cover_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
)

// TestDigestForm: a release that made other digests would take the objects of an update that
// another release has begun, or decided on, for changed ones.
func TestDigestForm(t *testing.T) {
	t.Parallel()
	kubeadm := `{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfig",`
	current := cover.Objects{
		Machine:        json.RawMessage(`{"spec":{"clusterName":"c","version":"v1.35.4"}}`),
		Infrastructure: json.RawMessage(`{"apiVersion":"i.x/v1","kind":"I","spec":{"image":"old","cpus":2}}`),
		Bootstrap:      json.RawMessage(kubeadm + `"spec":{"files":[{"path":"/etc/a","content":"1"}]}}`),
	}
	desired := cover.Objects{
		Machine:        json.RawMessage(`{"spec":{"clusterName":"c","version":"v1.36.3"}}`),
		Infrastructure: json.RawMessage(`{"apiVersion":"i.x/v1","kind":"I","spec":{"image":"new","cpus":2}}`),
		Bootstrap:      json.RawMessage(kubeadm + `"spec":{"files":[{"path":"/etc/a","content":"2 <é>"}]}}`),
	}
	c, err := cover.New(cover.Machine, current, desired, nil)
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, err := cover.Fingerprint(desired)
	if err != nil {
		t.Fatal(err)
	}
	result := c.Result()
	text := fmt.Sprintf("current %s\ndesired %s\nfingerprint %s",
		result.CurrentDigest, result.DesiredDigest, fingerprint)
	for _, change := range result.Changes {
		text += fmt.Sprintf("\n%s %s %s", change.Part, change.Path, change.Digest)
	}
	formtest.Text(t, "digests", text, func(form string) error {
		if form != text {
			return errors.New("today's digests are others")
		}
		return nil
	})
}
