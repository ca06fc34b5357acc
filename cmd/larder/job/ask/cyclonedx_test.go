package ask

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// cycloneDXRules are the rules of the schema of CycloneDX 1.6 for the objects that list writes. For each member, they
// have a pattern, or after @ the rule of an object, or after @@ that of a list of objects. A member with ! is required.
var cycloneDXRules = map[string]map[string]string{
	"bom": {
		"$schema": `http://cyclonedx\.org/schema/bom-1\.6\.schema\.json`, "bomFormat!": "CycloneDX", "specVersion!": `1\.6`,
		"version": "[1-9][0-9]*", "metadata": "@metadata", "components": "@@component", "compositions": "@@composition",
	},
	"metadata":    {"tools": "@tools"},
	"tools":       {"components": "@@component"},
	"composition": {"aggregate!": "complete|incomplete|unknown"},
	"component": {
		"type!": "application|library", "name!": ".*", "version": ".{0,999}", "group": ".*", "bom-ref": ".+",
		"purl":   `pkg:terraform/[\w.%-]+/[\w.%-]+(@[\w.%~-]+)?(\?repository_url=[\w.%:-]+)?`,
		"hashes": "@@hash", "properties": "@@property",
	},
	"hash":     {"alg!": "SHA-256", "content!": "[a-fA-F0-9]{64}"},
	"property": {"name!": "larder:[a-z0-9_]+", "value": ".+"},
}

// breaches returns how a value breaks a rule.
func breaches(rule string, value any, at string) (all []string) {
	object, is := value.(map[string]any)
	list, several := value.([]any)
	switch of := strings.TrimLeft(rule, "@"); {
	case several && strings.HasPrefix(rule, "@@"):
		for i, e := range list {
			all = append(all, breaches(rule[1:], e, fmt.Sprint(at, "[", i, "]"))...)
		}
	case is && rule == "@"+of:
		for name := range cycloneDXRules[of] {
			if name, required := strings.CutSuffix(name, "!"); required && object[name] == nil {
				all = append(all, at+": no "+name)
			}
		}
		for name, member := range object {
			all = append(all, breaches(cycloneDXRules[of][name]+cycloneDXRules[of][name+"!"], member, at+"."+name)...)
		}
	case is || several || rule != of || rule == "" || !regexp.MustCompile("^(?:"+rule+")$").MatchString(fmt.Sprint(value)):
		all = append(all, fmt.Sprintf("%s: %v", at, value))
	}
	return all
}

// An SBOM follows the schema of CycloneDX 1.6, whatever lock files contain.
func TestCycloneDX(t *testing.T) {
	sum := strings.Repeat("Ab", 32)
	signed := report.Verification{Verdict: sources.SelfSigned, Signature: report.Signature{Signer: "A <a@example.test>"}}
	var rows []Inventory
	for _, address := range []string{"hashicorp/aws", "example.test:8443/acme/widget", "bücher.example/acme/widget"} {
		p := sourcetest.Must(sources.ParseProvider(address, sources.Terraform))(t)
		for _, version := range []string{"", "1.2.0", "1.2.0-beta.1+build.5"} {
			v, _ := sources.ParseVersion(version)
			rows = append(rows, Inventory{
				of: sources.Release{Provider: p, Version: v}, Provider: p.String(), Version: version,
				Hashes:      []sources.Hash{"h1:A=", sources.Hash("zh:" + sum), "zh:short", "h2:unknown"},
				Packages:    []Locked{{"linux_amd64", nil, &signed}, {"linux_arm64", nil, nil}},
				RootModules: []string{"live/a \"quoted\" <&>", "lï/\xff"},
			})
		}
	}
	for _, incomplete := range []bool{false, true} {
		text := cycloneDX(rows, "devel", incomplete)
		var bom map[string]any
		sourcetest.Check(t, json.Unmarshal([]byte(text), &bom))
		sourcetest.EqualSlices(t, breaches("@bom", bom, "bom"), nil)
		refs := map[any]bool{}
		for _, c := range bom["components"].([]any) {
			refs[c.(map[string]any)["bom-ref"]] = true
		}
		sourcetest.Equal(t, len(refs), len(rows), "different references")
		sourcetest.Equal(t, strings.Count(text, strings.ToLower(sum)), len(rows), "checksums")
	}
	wrong := map[string]any{"serialNumber": "1", "version": []any{}, "components": []any{map[string]any{"name": "a"}}}
	sourcetest.Equal(t, len(breaches("@bom", wrong, "bom")), 5, "breaches", breaches("@bom", wrong, "bom"))
}
