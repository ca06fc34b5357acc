package credentials

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

const certificateStart = "-----BEGIN CERTIFICATE-----"

// Certificates returns the certificates in a PEM file, and ignores other blocks. It fails if there are none, or if one
// cannot be parsed.
func Certificates(src []byte) (all []*x509.Certificate, err error) {
	for _, block := range pemBlocks(src) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %s", len(all)+1, strings.TrimPrefix(err.Error(), "x509: "))
		}
		all = append(all, cert)
	}
	// The decoder skips blocks that it can't read without a word, such as those that were cut off.
	begun := bytes.Count(src, []byte(certificateStart))
	switch {
	case begun == 0:
		err := errors.New("contains no certificate")
		return nil, sources.WithHint(err, "it must be in PEM form, which starts with "+certificateStart)
	case begun != len(all):
		return nil, fmt.Errorf("only %d of %d certificates can be read", len(all), begun)
	}
	return all, nil
}

func pemBlocks(src []byte) []*pem.Block {
	var all []*pem.Block
	for {
		var block *pem.Block
		if block, src = pem.Decode(src); block == nil {
			return all
		}
		all = append(all, block)
	}
}

// KeyPair returns a certificate with its key, both from PEM files. Its errors are about the key. It matches the text of
// the cause, because crypto/tls returns no typed error, and does not show it, because it is worded for programmers.
func KeyPair(cert, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	encrypted := func(b *pem.Block) bool {
		return b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED")
	}
	switch {
	case err == nil:
	case slices.ContainsFunc(pemBlocks(key), encrypted):
		err = errors.New("the key is encrypted")
		err = sources.WithHint(err, "decrypt it into a file that only you may read: openssl pkey -in FILE -out FILE")
	case strings.Contains(err.Error(), "does not match"):
		err = errors.New("the key does not match the certificate")
	default:
		err = errors.New("contains no readable key")
		err = sources.WithHint(err, "it must be in PEM form, such as -----BEGIN PRIVATE KEY-----")
	}
	return pair, err
}
