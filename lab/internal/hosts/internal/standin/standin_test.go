//go:build linux

package standin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/standin"
)

func TestATrailerIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	rapid.Check(t, func(t *rapid.T) {
		program := rapid.SliceOfN(rapid.Byte(), 100, 1000).Draw(t, "program")
		before := bytes.Clone(program)
		want := standin.Trailer{Name: rapid.String().Draw(t, "name"), Version: rapid.String().Draw(t, "version")}
		content, err := standin.Append(program, want)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(program, before) || !bytes.HasPrefix(content, before) {
			t.Error("the program was changed")
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, found, err := standin.Read(path); err != nil || !found || got != want {
			t.Errorf("%+v, %v, %v; want %+v", got, found, err, want)
		}
	})
}

func TestAProgramWithoutATrailer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, found, err := standin.Read(path); err != nil || found {
		t.Errorf("%+v, %v, %v", got, found, err)
	}
}
