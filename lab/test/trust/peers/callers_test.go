package peers_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestHostileCallers sends large requests to hooks and guard, many at once: long ones, and ones
// with many values that become large objects. The process keeps its memory, and serves others
// afterwards.
func TestHostileCallers(t *testing.T) {
	t.Parallel()
	plane := wire.Start(t)
	extension := plane.Run(t)
	const mib, callers, rounds = 1 << 20, 16, 4
	fill := func(format, with string, size int) []byte {
		return fmt.Appendf(nil, format, strings.Repeat(with, size/len(with)))
	}
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
		`"operation":"CREATE","namespace":"n","object":{"apiVersion":"cluster.x-k8s.io/v1beta2",` +
		`"kind":"Machine","metadata":{"name":"m",%s},"spec":{"clusterName":"c"}}}}`
	values := strings.Replace(review, "%s", `"managedFields":[%s{}]`, 1)
	text := strings.Replace(review, "%s", `"annotations":{"a":"%s"}`, 1)
	before := extension.Hooks + wire.BeforeClusterUpgrade.Path()
	canUpdate := extension.Hooks + wire.CanUpdateMachineSet.Path()
	topology := `{"cluster":{"spec":{"topology":{"workers":{"machineDeployments":[%s{}]}}}}}`
	set := `{"current":{"bootstrapConfigTemplate":{"a":"%s"}}}`
	client := extension.Client(t, nil)
	var answers, refused atomic.Int64
	var wait sync.WaitGroup
	for url, bodies := range map[string][][]byte{
		before:                             {fill(topology, "{},", mib/4), fill(topology, "{},", 6*mib)},
		canUpdate:                          {fill(set, "x", 8*mib), fill(set, "x", 64*mib)},
		extension.Guard + "/guard-machine": {fill(values, "{},", mib/4), fill(text, "x", 6*mib)},
	} {
		for _, body := range bodies {
			for range callers {
				wait.Go(func() {
					for range rounds {
						code, err := send(t, client, url, body)
						if err == nil {
							answers.Add(1)
						}
						if err == nil && code != http.StatusOK {
							refused.Add(1)
						}
					}
				})
			}
		}
	}
	wait.Wait()
	t.Logf("%d answers, %d of them refusals; the process had %d MiB", answers.Load(), refused.Load(),
		extension.Memory(t)>>20)
	if answers.Load() == 0 || refused.Load() == 0 {
		t.Error("no request was refused")
	}
	checkProcess(t, extension)
}

// send sends a body, and returns the status. The server may end the connection while it is sent.
func send(t *testing.T, client *http.Client, url string, body []byte) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
