package hosts_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
)

// TestWithdrawnManifest replays a manifest that was signed, and withdrawn by a newer one.
func TestWithdrawnManifest(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.config.Binaries.Digests = v1alpha1.HostDigests{
		ConfigMapName: "digests", PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	}
	publish := func(text string) {
		w.maps["digests"] = map[string]string{"SHA256SUMS": text, "SHA256SUMS.sig": base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(text)))}
	}
	signed := func(serial int64, expires time.Time) string {
		return linuxhost.Terms{Serial: serial, Expires: expires}.String() + "\n" + manifest()
	}
	var highest int64
	var recordError error
	options := w.options()
	options.RecordSerial = func(_ context.Context, serial int64) (int64, error) {
		if recordError == nil {
			highest = max(highest, serial)
		}
		return highest, recordError
	}
	u, err := hosts.New(options)
	if err != nil {
		t.Fatal(err)
	}
	later := w.clock().Add(time.Hour)
	check := func(when string, outcome inplace.Outcome, words string) {
		t.Helper()
		answer := u.UpdateMachine(t.Context(), request("a-1"))
		if answer.Outcome != outcome || !strings.Contains(answer.Message, words) {
			t.Errorf("%s: got %+v, want %q", when, answer, words)
		}
	}
	publish(manifest())
	check("without a serial", inplace.Fails, "no serial and no expiry")
	publish(signed(7, later))
	recordError = errors.New("the Updater has changed")
	check("not recorded", inplace.Unknown, "the Updater has changed")
	recordError = nil
	if w.job.step != "" {
		t.Errorf("the step %s was begun before the serial was recorded", w.job.step)
	}
	publish(signed(8, later))
	check("the newer one", inplace.InProgress, "")
	publish(signed(7, later))
	check("the withdrawn one", inplace.Fails, "8 is the lowest that counts")
	publish(signed(9, w.clock()))
	check("an expired one", inplace.Fails, "has expired")
	if highest != 8 {
		t.Errorf("the serial %d is recorded, want 8: an expired manifest does not count", highest)
	}
}
