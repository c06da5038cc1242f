// Package critest_test is critest, the validation suite of cri-tools for container runtimes, at the
// version of the module's crictl. It needs a runtime; lab/test/e2e/processruntime runs it.
package critest_test

import (
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"sigs.k8s.io/cri-tools/pkg/framework"
	_ "sigs.k8s.io/cri-tools/pkg/validate"
)

func TestMain(m *testing.M) {
	framework.RegisterFlags()
	os.Exit(m.Run())
}

// TestRuntime validates the runtime at the flag runtime-endpoint.
func TestRuntime(t *testing.T) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "runtime-endpoint" })
	if !given {
		t.Skip("set -runtime-endpoint to validate a runtime")
	}
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "CRI validation")
}
