# The image that config/ runs: docker build --build-arg VERSION=v0.1.0 -t REGISTRY/windlass:v0.1.0 .
# The official image of Go, pinned by digest: the tag is for readers and may move. The program brings its CAs along, so the image
# needs no base with files of CAs.
FROM golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.buildVersion=${VERSION}" -o /windlass ./cmd/windlass

FROM scratch
COPY --from=build /windlass /windlass
USER 65532:65532
ENTRYPOINT ["/windlass"]
