package cliconfig_test

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestTokenOrigin(t *testing.T) {
	c := mustLoad(t, linux(map[string]string{
		"/home/me/.terraformrc": "credentials \"block.example\" { token = \"secret\" }\ncredentials \"none.example\" {}\ncredentials \"both.example\" { token = \"secret\" }\n",
	}, "TF_TOKEN_variable_example=secret", "TF_TOKEN_both_example=secret"), terraform)
	for host, want := range map[sources.Host]string{
		"block.example":    "the credentials block at /home/me/.terraformrc:1",
		"variable.example": "variable TF_TOKEN_variable_example",
		"both.example":     "variable TF_TOKEN_both_example",
		"none.example":     "",
		"other.example":    "",
	} {
		got, err := c.TokenOrigin(t.Context(), host)
		check(t, err)
		sourcetest.Equal(t, got, want, host)
	}
}

func TestTokenOriginIsAHelper(t *testing.T) {
	c := mustLoad(t, helperMachine(t, map[string]string{"terraform-credentials-x": `echo '{"token": "secret"}'`}), terraform)
	got, err := c.TokenOrigin(t.Context(), "a.example")
	check(t, err)
	sourcetest.Equal(t, got, "the credentials helper x")
}

func TestAuthoritiesOrigin(t *testing.T) {
	pem := map[string]string{"/ca.pem": "-----BEGIN CERTIFICATE-----"}
	for _, tt := range []struct {
		env  []string
		want string
	}{
		{nil, "the system"},
		{[]string{"SSL_CERT_FILE=/ca.pem"}, "SSL_CERT_FILE"},
		{[]string{"SSL_CERT_FILE=/none.pem"}, "the system"},
		{[]string{"SSL_CERT_FILE=/ca.pem", "SSL_CERT_DIR=/certs"}, "SSL_CERT_FILE and SSL_CERT_DIR"},
	} {
		sourcetest.Equal(t, mustLoad(t, linux(pem, tt.env...), terraform).AuthoritiesOrigin("a.example"), tt.want)
	}
}
