// Command words reports words in documents and messages that an engineer whose first language is not
// English misreads, with the word to use instead.
//
//	go run ./test/words [-comments] ROOT
//
// It reads all files below ROOT that git tracks or would add: Markdown without its code, the string
// literals and identifiers of Go files that are not tests, and all of YAML, Makefiles, scripts, and
// testdata, which contains messages. The rules are in the table of rules.go, and only there. A word in quotes
// or backquotes of its own is a name, such as a key of JSON, and allowed.
//
// The exit code is 1 if there is a hit. With -comments the command counts the hits in Go comments
// instead, which are not forbidden yet.
package main
