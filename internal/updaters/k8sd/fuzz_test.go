package k8sd

import (
	"strings"
	"testing"
	"unicode"
)

// An answer comes from a node. An error about it is one bounded line, and does not hold the node's
// token.
func FuzzAnswer(f *testing.F) {
	const token = "s3cr3t-t0ken-0f-a-node"
	for _, seed := range []struct {
		code int
		body string
	}{
		{200, `{"type":"sync","metadata":{"changeId":"7"}}`},
		{200, `{"type":"error","error":"TOKEN is wrong","error_code":403}`},
		{401, `{"error":"invalid token TOKEN"}`},
		{503, `{"error":"Daemon is shutting down"}`},
		{500, `{"error":"failed to refresh snap: exit status 10"}`},
		{500, `<html>TOKEN</html>`},
		{200, `{"metadata":[]}`},
		{200, `{"metadata":null}`},
		{302, ``},
		{200, `{"metadata":{"changeId":"7\u001b[2J"}}`},
		{200, `{"metadata":{"changeId":"` + strings.Repeat("7", 1000) + `"}}`},
	} {
		f.Add(seed.code, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		s := &session{token: token}
		var result refreshAnswer
		err := s.decode(code, []byte(strings.ReplaceAll(string(body), "TOKEN", token)), &result)
		if id := string(result.ChangeID); len(id) > maxChangeID || strings.ContainsFunc(id, unicode.IsControl) {
			t.Errorf("the change is %q", id)
		}
		if err == nil {
			return
		}
		if said := err.Error(); strings.Contains(said, token) || len(said) > 2<<10 || strings.ContainsFunc(said, unicode.IsControl) {
			t.Errorf("the error is %q", said)
		}
	})
}
