package hookserver_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestHeaders sends long headers to the server of hooks.
func TestHeaders(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	url, _ := serveCallers(t, ca, ca)
	client := caller(t, ca, &ca)
	for size, want := range map[int]bool{1 << 10: true, 64 << 10: false} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Long", strings.Repeat("x", size))
		response, err := client.Do(request)
		read := err == nil && response.StatusCode != http.StatusRequestHeaderFieldsTooLarge
		if err == nil {
			_ = response.Body.Close()
		}
		if read != want {
			t.Errorf("a header of %d bytes is read: %t, %v", size, read, err)
		}
	}
}
