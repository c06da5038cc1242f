package k8sd

import (
	"crypto/x509"
	"testing"
)

// What is not said, or could not be read, is no reason to trust anybody.
func TestConfigVerifies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trust trust
		skips bool
		pins  bool
	}{
		"nothing":           {},
		"an unread Secret":  {trust: trust{secretName: "s"}},
		"a CA":              {trust: trust{pool: x509.NewCertPool()}},
		"fingerprints":      {trust: trust{pins: []pin{{}}}, skips: true, pins: true},
		"anybody, as asked": {trust: trust{anybody: true}, skips: true},
	} {
		c := test.trust.config("host")
		if c.InsecureSkipVerify != test.skips || (c.VerifyConnection != nil) != test.pins || c.ServerName != "host" {
			t.Errorf("%s: skips verifying: %t, compares fingerprints: %t", name, c.InsecureSkipVerify, c.VerifyConnection != nil)
		}
	}
}
