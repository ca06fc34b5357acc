# An image that contains Larder, certificate authorities and nothing else.
FROM golang:1.26 AS larder
RUN CGO_ENABLED=0 GOBIN=/out go install github.com/larder-cli/larder/cmd/larder@latest
RUN mkdir -p /home/larder

FROM scratch
COPY --from=larder /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=larder /out/larder /usr/bin/larder
COPY --from=larder --chown=65532:65532 /home/larder /home/larder
ENV HOME=/home/larder
USER 65532:65532
ENTRYPOINT ["/usr/bin/larder"]
