package config_test

import (
	"os"
	"regexp"
	"testing"
)

// TestBaseImages holds that what an image is built from cannot change under a tag.
func TestBaseImages(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	bases := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(content), -1)
	if len(bases) == 0 {
		t.Fatal("the Dockerfile has no FROM")
	}
	pinned := regexp.MustCompile(`^(scratch|\S+@sha256:[0-9a-f]{64})$`)
	for _, base := range bases {
		if !pinned.MatchString(base[1]) {
			t.Errorf("the base image %s is not pinned by digest", base[1])
		}
	}
}
