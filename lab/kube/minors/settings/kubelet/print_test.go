package kubelet_test

import (
	"os"
	"testing"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	// The kubelet registers gates of its own.
	_ "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

// TestPrint prints the settings of the kubelet, and kubeadm's own gates, those of a
// ClusterConfiguration. kubeadm ignores locks.
func TestPrint(t *testing.T) {
	const name = "kubelet"
	config, err := options.NewKubeletConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	// As NewKubeletCommand, which keeps its flags to itself.
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options.NewKubeletFlags().AddFlags(set)
	options.AddKubeletConfigFlags(set, config)
	options.AddGlobalFlags(set)
	set.BoolP("help", "h", false, "")
	// It has these on Windows only: osflags_windows.go.
	set.Bool("windows-service", false, "")
	set.String("windows-priorityclass", "", "")
	if err := settings.Print(os.Stdout, name, set); err != nil {
		t.Fatal(err)
	}
	fields := settings.Fields(kubelet.KubeletConfiguration{})
	if err := settings.PrintLines(os.Stdout, name, fields); err != nil {
		t.Fatal(err)
	}
	var gates []string
	for gate := range features.InitFeatureGates {
		gates = append(gates, "gate "+gate)
	}
	if err := settings.PrintLines(os.Stdout, "kubeadm", gates); err != nil {
		t.Fatal(err)
	}
}
