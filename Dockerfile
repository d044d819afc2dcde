# The image of the holdfast command: a static binary on certificates and time zones, no shell, not root, and nothing that
# writes to its root filesystem. `make image` builds it, `make image-check` tries it.

# Pinned by digest; the tags say what that is. Both digests are of lists of platforms.
ARG BUILD_IMAGE=docker.io/library/golang:1.26.8-bookworm@sha256:dc9ad6c05acc7a88e5b71bde60a5fe3bd4b9f0db209011711b464107438a8107
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot@sha256:afa5c872c891853ca7fcf1f12c3edb23f7eeef36189728842dd51042ff57f7ab

# On the platform of the machine that builds: Go makes the binary for the other one.
FROM --platform=${BUILDPLATFORM} ${BUILD_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
	go mod download
# Named one by one, so that no state folder or build output gets in.
COPY cmd/ cmd/
COPY lua/ lua/
COPY proto/ proto/
COPY server/ server/
COPY store/ store/
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
ARG REVISION=unknown
RUN --mount=type=cache,target=/go/pkg/mod \
	--mount=type=cache,target=/root/.cache/go-build \
	CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" \
	-o /out/ ./cmd/holdfast

# Said again, since for buildah 1.28 the platform of the stage above would be that of this one too.
FROM --platform=${TARGETPLATFORM} ${BASE_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="holdfast" \
	org.opencontainers.image.description="gRPC inventory service: holds in Redis, sales in Postgres" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.revision="${REVISION}"
COPY --from=build /out/ /usr/local/bin/
# The number of nonroot, since Kubernetes' runAsNonRoot can not check a name.
USER 65532:65532
# gRPC, and metrics and probes.
EXPOSE 50051 9464
ENTRYPOINT ["/usr/local/bin/holdfast"]
CMD ["serve"]
