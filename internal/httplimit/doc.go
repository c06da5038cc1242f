// Package httplimit serves HTTP to callers that nobody trusts. It bounds the connections of each caller
// and of all, the size of headers, the time of requests and answers, what one connection of HTTP/2
// holds, and the lines that broken connections cause in the log. The product of these bounds fits in
// the memory of the process.
package httplimit
