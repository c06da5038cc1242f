module github.com/windlass-dev/windlass/test/upstream

go 1.26.0
