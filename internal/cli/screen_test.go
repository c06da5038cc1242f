package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/view"
)

func TestNewScreen(t *testing.T) {
	for _, test := range []struct {
		name      string
		columns   string
		arguments []string
		want      view.Screen
	}{
		{name: "a pipe has no width", want: view.Screen{}},
		{name: "COLUMNS", columns: "72", want: view.Screen{Width: 72}},
		{name: "COLUMNS is nonsense", columns: "-1", want: view.Screen{}},
		{name: "colors by flag", arguments: []string{"--color", "always"}, want: view.Screen{Color: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("COLUMNS", test.columns)
			t.Setenv("CLICOLOR_FORCE", "")
			var got view.Screen
			root := &cobra.Command{Use: "root"}
			AddColorFlag(root)
			verb := &cobra.Command{Use: "verb", Run: func(cmd *cobra.Command, _ []string) { got = NewScreen(cmd) }}
			verb.SetOut(t.Output())
			root.AddCommand(verb)
			root.SetArgs(append([]string{"verb"}, test.arguments...))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("NewScreen (-want +got):\n%s", diff)
			}
		})
	}
}
