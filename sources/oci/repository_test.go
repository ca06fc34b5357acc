package oci_test

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestTemplate(t *testing.T) {
	for _, test := range []struct {
		template, include, provider string
		want                        string // the repository
		fails, failsLater           string // the end of the error
	}{
		{template: "ghcr.io/acme/${namespace}/${type}", include: "*/*", provider: "hashicorp/random", want: "ghcr.io/acme/hashicorp/random"},
		{template: "r.example.com:5000/${hostname}/${namespace}/${type}", provider: "hashicorp/random", want: "r.example.com:5000/registry.opentofu.org/hashicorp/random"},
		{template: "r.example.com/${hostname}/${namespace}-${type}", provider: "испытание.com/a/b", want: "r.example.com/xn--80akhbyknj4f.com/a-b"},
		{template: "r.example.com/random", include: "hashicorp/random", provider: "hashicorp/random", want: "r.example.com/random"},
		{template: "r.example.com/${namespace == \"hashicorp\" ? \"h\" : namespace}/${type}", include: "*/*", provider: "hashicorp/random", want: "r.example.com/h/random"},

		{template: "r.example.com/${type}", include: "*/*", fails: "it maps providers with a different namespace to the same repository"},
		{template: "r.example.com/${namespace}/${type}", fails: "it maps providers with a different hostname to the same repository"},
		{template: "r.example.com/${hostname}/${namespace}", fails: "it maps providers with a different type to the same repository"},
		{template: "r.example.com/${hostname}/${namespace}/${type}/${version}", fails: "there is no variable version"},
		{template: "r.example.com/${hostname}/${namespace}/${type + 1}", fails: "a number is required"},
		{template: "r.example.com/${hostname}/${namespace}/${type", fails: "Unclosed template interpolation sequence: There is no closing brace for this interpolation sequence before the end of the file. This might be caused by incorrect nesting inside the given expression"},
		{template: "r.example.com/${upper(type)}/${hostname}/${namespace}", fails: "Functions may not be called here"},
		{template: "r.example.com", include: "a/b", fails: "it has no path after the host"},
		{template: "r.example.com/Acme/${namespace}/${type}", include: "*/*", fails: `"Acme/example-namespace/example-type" is not the name of a repository`},
		{template: "r.example.com/a/${namespace}/${type}:latest", include: "*/*", fails: "which the name of a repository can't contain"},
		{template: "https://r.example.com/${namespace}/${type}", include: "*/*", fails: `"https://r.example.com/example-namespace/example-type" is a URL`},
		{template: "user@r.example.com/${namespace}/${type}", include: "*/*", fails: `"user@r.example.com" is not the address of a registry`},

		{template: "r.example.com/${namespace}/${type}", include: "*/*", provider: "hashicorp/тест", failsLater: `"hashicorp/тест" is not the name of a repository`},
		{template: "r.example.com/${hostname}/${namespace}/${type}", provider: "example.com:8443/a/b", failsLater: "which the name of a repository can't contain"},
	} {
		t.Run(test.template, func(t *testing.T) {
			var include []sources.Pattern
			if test.include != "" {
				p := sourcetest.Must(sources.ParsePattern(test.include))(t)
				include = append(include, p)
			}
			template, err := oci.ParseTemplate(test.template)
			if err == nil {
				err = template.Distinct(include)
			}
			if test.fails != "" || err != nil {
				fails(t, err, test.fails)
				return
			}
			p := sourcetest.Must(sources.ParseProvider(test.provider, sources.OpenTofu))(t)
			r, err := template.Repository(p)
			fails(t, err, test.failsLater)
			sourcetest.Equal(t, r.String(), test.want, "repository")
		})
	}
}

// fails expects an error that ends with a text, or none if that is empty.
func fails(t *testing.T, err error, end string) {
	t.Helper()
	sourcetest.Expect(t, (err == nil) == (end == "") && (err == nil || strings.HasSuffix(err.Error(), end)), "error %v, want %q", err, end)
}
