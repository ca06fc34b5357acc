# An image with all providers of a repository. terraform init in this image needs neither Larder
# nor a registry.
FROM golang:1.26 AS larder
RUN CGO_ENABLED=0 GOBIN=/out go install github.com/larder-cli/larder/cmd/larder@latest

FROM alpine:3.23 AS providers
COPY --from=larder /out/larder /usr/local/bin/larder
WORKDIR /src
COPY . .
RUN find . -name .terraform -prune -o -name .terraform.lock.hcl -exec larder mirror sync --unpacked /providers {} +

FROM hashicorp/terraform:1.14
COPY --from=providers /providers /usr/local/share/terraform/plugins
