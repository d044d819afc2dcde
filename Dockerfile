# The image of the holdfast command: one static binary and certificates, no shell, not root.
# `make image` builds it.

ARG BUILD_IMAGE=golang:1.26-bookworm

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# Named one by one, so that no state folder or build output gets in.
COPY cmd/ cmd/
COPY lua/ lua/
COPY proto/ proto/
COPY server/ server/
COPY store/ store/
ARG VERSION=unknown
ARG REVISION=unknown
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X main.version=${VERSION} -X main.revision=${REVISION}" \
	-o /out/ ./cmd/holdfast ./cmd/launch

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="holdfast" \
	org.opencontainers.image.description="gRPC inventory service: holds in Redis, sales in Postgres" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.revision="${REVISION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ /usr/local/bin/
# The number of nonroot, since Kubernetes' runAsNonRoot can not check a name.
USER 65532:65532
# gRPC, and metrics and probes.
EXPOSE 50051 9464
ENTRYPOINT ["/usr/local/bin/holdfast"]
CMD ["serve"]
