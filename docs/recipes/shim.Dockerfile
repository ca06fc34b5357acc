# An image whose terraform gets its providers from Larder.
FROM golang:1.26 AS larder
RUN CGO_ENABLED=0 GOBIN=/out go install github.com/larder-cli/larder/cmd/larder@latest

FROM hashicorp/terraform:1.14 AS engine

FROM alpine:3.23
RUN apk add --no-cache git
COPY --from=engine /bin/terraform /usr/local/bin/terraform
COPY --from=larder /out/larder /usr/local/bin/larder
RUN larder shim /usr/local/lib/larder
ENV PATH=/usr/local/lib/larder:$PATH
