package ask

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
)

// object is an object of CycloneDX 1.6, with the members that list writes: https://cyclonedx.org/docs/1.6/json/.
type object = map[string]any

// cycloneDX returns an inventory as an SBOM. It has neither a serial number nor a time, so that the same inventory is
// the same document. Incomplete means that some root modules could not be read.
func cycloneDX(rows []Inventory, larder string, incomplete bool) string {
	components, aggregate := []object{}, "complete"
	for _, row := range rows {
		components = append(components, row.component())
	}
	if incomplete {
		aggregate = "incomplete"
	}
	tool := object{"type": "application", "name": "larder", "version": larder}
	return report.IndentedJSON(object{
		"$schema":   "http://cyclonedx.org/schema/bom-1.6.schema.json",
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   object{"tools": object{"components": []object{tool}}},
		"components": components, "compositions": []object{{"aggregate": aggregate}},
	})
}

// component returns the component for a row. The checksums of its archives are its hashes: those for all platforms,
// because a lock file doesn't state their platforms. An h1: hash isn't the hash of a file.
func (i Inventory) component() object {
	hashes, properties := []object{}, []object{}
	add := func(name, value string) {
		if value != "" {
			properties = append(properties, object{"name": "larder:" + name, "value": value})
		}
	}
	add("provider", i.Provider)
	for _, h := range i.Hashes {
		if sum, err := h.Canonical().Sum(sources.ZH); err == nil {
			hashes = append(hashes, object{"alg": "SHA-256", "content": fmt.Sprintf("%x", sum)})
		} else if h.Scheme() == sources.H1 {
			add("h1", string(h))
		}
	}
	for _, platform := range i.platforms() {
		add("platform", platform)
	}
	if by := i.signer(); by.Verdict > sources.Unverified {
		add("verified_as", by.As())
		add("signer", by.Signer)
		add("fingerprint", string(by.Fingerprint))
	}
	for _, root := range i.RootModules {
		add("root_module", root)
	}
	c := object{
		"type": "library", "group": i.of.Provider.Namespace, "name": i.of.Provider.Type,
		"bom-ref": i.purl(), "purl": i.purl(), "properties": properties,
	}
	if i.Version != "" {
		c["version"] = i.Version
	}
	if len(hashes) > 0 {
		c["hashes"] = hashes
	}
	return c
}

// purl returns the package URL, of the type that is proposed for providers and modules. Its default registry is
// Terraform's: https://github.com/package-url/purl-spec/issues/369.
func (i Inventory) purl() string {
	escaped := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "%3A", ":") }
	p := i.of.Provider
	text := "pkg:terraform/" + escaped(p.Namespace) + "/" + escaped(p.Type)
	if i.Version != "" {
		text += "@" + escaped(i.Version)
	}
	if p.Host != sources.Terraform.DefaultHost() {
		text += "?repository_url=" + escaped(p.Host.ASCII())
	}
	return text
}
