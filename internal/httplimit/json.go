package httplimit

import (
	"bufio"
	"io"
	"net/http"
)

// onlyJSON refuses requests whose body does not begin as the JSON of API servers does. The decoder of
// admission webhooks takes any other body for protobuf or YAML, whatever the Content-Type: YAML takes
// many times its size in memory.
func onlyJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bufio.NewReader(r.Body)
		if first, err := body.Peek(1); err != nil || first[0] != '{' {
			const problem = "the request is not a JSON object. Fix: send JSON, as API servers do"
			http.Error(w, problem, http.StatusBadRequest)
			return
		}
		whole := r.WithContext(r.Context())
		whole.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
		next.ServeHTTP(w, whole)
	})
}
