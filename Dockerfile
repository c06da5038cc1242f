# The image that config/ runs: docker build --build-arg VERSION=v0.1.0 -t REGISTRY/windlass:v0.1.0 .
FROM golang:1.26 AS build
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
