package bucket

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/larder-cli/larder/sources/fetch"
)

// A call is a request to the store.
type call struct {
	method string
	key    string // of the object; empty for the bucket
	query  url.Values
	header http.Header
	body   io.ReaderAt   // nil if there is none
	size   int64         // of the body, in bytes
	sum    [32]byte      // SHA-256 of the body
	limit  int64         // of the answer's body, in bytes; 0 means maxXML
	sent   func(n int64) // see [fetch.Write]; may be nil
	verify bool          // compare the answer's body with the checksum of the store

	// The store verifies another checksum, and TLS protects it, so the signature doesn't include the body.
	unsigned bool
}

// with adds a body in memory to a call.
func (c call) with(body []byte) call {
	c.body, c.size, c.sum = bytes.NewReader(body), int64(len(body)), sum256(body)
	return c
}

// send sends a request until it succeeds, fails for good, or has failed too often.
func (b *Bucket) send(ctx context.Context, c call) (*fetch.Reply, error) {
	u := b.urlOf(c.key, b.currentRegion())
	u.RawQuery = s3utils.QueryEncode(c.query)
	w := fetch.Write{Method: c.method, URL: u.String(), Header: http.Header{}, Limit: first(c.limit, maxXML), Check: c.check, Sent: c.sent}
	maps.Copy(w.Header, c.header)
	w.Header.Set("Accept-Encoding", "identity")
	if c.size > 0 { // otherwise the transport would send it in chunks
		w.Body, w.Size = c.body, c.size
		w.Header.Set(payloadHeader, hex.EncodeToString(c.sum[:]))
		if c.unsigned {
			w.Header.Set(payloadHeader, "UNSIGNED-PAYLOAD")
		}
	}
	reply, err := b.opts.Client.Do(ctx, w)
	if err != nil {
		return nil, b.failure(ctx, c, err)
	}
	return reply, nil
}

// check returns the error in an answer. An answer of 200 may contain one, after white space.
func (c call) check(reply *fetch.Reply) error {
	var failed struct {
		XMLName xml.Name `xml:"Error"`
	}
	if reply.Status >= 300 || c.method == http.MethodPost && xml.Unmarshal(reply.Body, &failed) == nil {
		return reply.Refused()
	}
	if sum, ok := storeSum(reply.Header); ok && c.verify && sum != sum256(reply.Body) {
		return fetch.Broken(errDamaged)
	}
	return nil
}

// subject returns the URL of an object for messages, or that of the bucket.
func (b *Bucket) subject(key string) string { return Location{b.at.Bucket, key}.String() }

func inBase64(sum [32]byte) string { return base64.StdEncoding.EncodeToString(sum[:]) }
