// Command kubelet prints the settings of the kubelet, or of kubeadm if its argument is kubeadm.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	// The kubelet registers gates of its own.
	_ "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"github.com/windlass-dev/windlass/lab/kube/minors/settings"
)

func main() {
	program := printKubelet
	if slices.Equal(os.Args[1:], []string{"kubeadm"}) {
		program = printKubeadm
	}
	if err := program(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func printKubelet(w io.Writer) error {
	config, err := options.NewKubeletConfiguration()
	if err != nil {
		return fmt.Errorf("making the default configuration: %w", err)
	}
	// As NewKubeletCommand, which keeps its flags to itself.
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options.NewKubeletFlags().AddFlags(set)
	options.AddKubeletConfigFlags(set, config)
	options.AddGlobalFlags(set)
	set.BoolP("help", "h", false, "")
	// It has these on Windows only: osflags_windows.go.
	set.Bool("windows-service", false, "")
	set.String("windows-priorityclass", "", "")
	if err := settings.Print(w, set); err != nil {
		return err //nolint:wrapcheck // It names what failed.
	}
	return settings.PrintLines(w, settings.Fields(kubelet.KubeletConfiguration{})) //nolint:wrapcheck // As above.
}

// printKubeadm prints kubeadm's own gates, those of a ClusterConfiguration. It ignores locks.
func printKubeadm(w io.Writer) error {
	var lines []string
	for name := range features.InitFeatureGates {
		lines = append(lines, "gate "+name)
	}
	return settings.PrintLines(w, lines) //nolint:wrapcheck // As above.
}
