package bucket

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// call returns a request about an unfinished upload of the object. The pairs are those of its query.
func (u *upload) call(method string, pairs ...string) call {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return call{method: method, key: u.key, query: query, header: http.Header{}}
}

// begin begins an upload in parts, and returns its ID.
func (u *upload) begin(ctx context.Context) (id string, err error) {
	c := u.call(http.MethodPost, "uploads", "")
	u.opts.describe(&c, u.sum)
	c.header.Set("X-Amz-Checksum-Algorithm", "CRC32C")
	a, err := u.send(ctx, c)
	if err != nil {
		return "", err
	}
	var result struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		UploadID string   `xml:"UploadId"`
	}
	if err := u.decode(a, u.key, &result); err != nil {
		return "", err
	}
	u.verifies = a.Header.Get("X-Amz-Checksum-Algorithm") == "CRC32C"
	return result.UploadID, nil
}

// castagnoli is the polynomial of CRC32C, which all stores with checksums verify, and which takes a tenth of the time of SHA-256.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sendPart sends a part. The store verifies its CRC32C, or else the SHA-256 in the signature.
func (u *upload) sendPart(ctx context.Context, id string, p *part) (err error) {
	c := u.call(http.MethodPut, "partNumber", strconv.Itoa(p.number), "uploadId", id)
	c.body, c.size, c.sent = io.NewSectionReader(u.data, p.at, p.size), p.size, u.count
	var others []io.Writer
	sum := sha256.New()
	if c.unsigned = u.verifies && u.URL("").Scheme == "https"; !c.unsigned {
		others = []io.Writer{sum}
	}
	if p.sent, err = u.hash(ctx, p, others...); err != nil {
		return err
	}
	if u.verifies {
		p.sum = p.sent
		c.header.Set("X-Amz-Checksum-Crc32c", base64.StdEncoding.EncodeToString(p.sum))
	}
	if !c.unsigned {
		c.sum = [32]byte(sum.Sum(nil))
	}
	a, err := u.send(ctx, c)
	if err != nil {
		return err
	}
	got := a.Header.Get("X-Amz-Checksum-Crc32c")
	if got != "" && got != c.header.Get("X-Amz-Checksum-Crc32c") {
		return &Error{Subject: u.subject(u.key), Err: fmt.Errorf("part %d: %w", p.number, ErrCorrupt)}
	}
	p.etag = a.Header.Get("ETag")
	return nil
}

// completeXML is a request to complete an upload.
type completeXML struct {
	XMLName xml.Name `xml:"CompleteMultipartUpload"`
	Part    []completedXML
}

type completedXML struct {
	PartNumber     int
	ETag           string
	ChecksumCRC32C string `xml:",omitempty"`
}

// complete makes the parts an object, and returns its ETag.
func (u *upload) complete(ctx context.Context, id string) (etag string, err error) {
	var request completeXML
	all := crc32.New(castagnoli)
	for _, p := range u.parts {
		request.Part = append(request.Part, completedXML{p.number, p.etag, base64.StdEncoding.EncodeToString(p.sum)})
		all.Write(p.sum)
	}
	text, err := xml.Marshal(request)
	if err != nil {
		return "", err
	}
	c := u.call(http.MethodPost, "uploadId", id).with(text)
	u.opts.Only.add(&c)
	a, err := u.send(ctx, c)
	if err != nil {
		return "", err
	}
	var result struct {
		XMLName        xml.Name `xml:"CompleteMultipartUploadResult"`
		ETag           string
		ChecksumCRC32C string
	}
	if err := u.decode(a, u.key, &result); err != nil {
		return "", err
	}
	want := fmt.Sprintf("%s-%d", base64.StdEncoding.EncodeToString(all.Sum(nil)), len(u.parts))
	if got := result.ChecksumCRC32C; strings.Contains(got, "-") && got != want || result.ETag == "" {
		return "", u.discard(ctx, u.name, result.ETag)
	}
	return result.ETag, nil
}

// uploadsXML is a page of unfinished uploads.
type uploadsXML struct {
	XMLName     xml.Name `xml:"ListMultipartUploadsResult"`
	IsTruncated bool
	NextKey     string `xml:"NextKeyMarker"`
	NextID      string `xml:"NextUploadIdMarker"`
	Upload      []struct {
		Key       string
		UploadID  string `xml:"UploadId"`
		Initiated time.Time
	}
}

// partsXML is a page of the parts of an unfinished upload.
type partsXML struct {
	XMLName     xml.Name `xml:"ListPartsResult"`
	IsTruncated bool
	Next        string `xml:"NextPartNumberMarker"`
	Part        []partXML
}

type partXML struct {
	PartNumber     int
	ETag           string
	Size           int64
	ChecksumCRC32C string
}

// find returns the ID of the unfinished upload of the object that has the most of its parts, and marks these, or returns
// "" if there is none. It removes uploads with other contents, and abandoned ones. A store that refuses to list uploads
// has none.
func (u *upload) find(ctx context.Context) (id string, err error) {
	var best []partXML
	query, compared := u.list(), 0
	for range maxPages {
		var page uploadsXML
		if err := u.get(ctx, query, &page); err != nil {
			if refused(err) {
				return "", nil
			}
			return "", err
		}
		for _, unfinished := range page.Upload {
			if unfinished.Key != u.key {
				continue
			}
			if compared++; compared > maxUnfinished { // the next upload finds them
				break
			}
			parts, err := u.partsOf(ctx, unfinished.UploadID)
			same := err == nil && u.same(ctx, parts)
			switch {
			case ctx.Err() != nil:
				return "", ctx.Err()
			case err != nil: // completed or removed meanwhile
			case same && len(parts) > len(best):
				id, best = unfinished.UploadID, parts
			case !same, len(parts) == 0 && time.Since(unfinished.Initiated) > abandoned:
				u.abort(ctx, unfinished.UploadID)
			}
		}
		if !page.IsTruncated || page.NextKey == query.query.Get("key-marker") && page.NextID == query.query.Get("upload-id-marker") {
			break
		}
		query.query.Set("key-marker", page.NextKey)
		query.query.Set("upload-id-marker", page.NextID)
	}
	for _, has := range best {
		p := u.parts[has.PartNumber-1]
		p.etag, u.verifies = has.ETag, has.ChecksumCRC32C != ""
		u.count(p.size)
	}
	return id, nil
}

// list returns a request for the unfinished uploads of the object, and of those whose keys begin like its key.
func (u *upload) list() call {
	return call{method: http.MethodGet, query: url.Values{"uploads": {""}, "prefix": {u.key}}}
}

// get sends a request and decodes its answer.
func (u *upload) get(ctx context.Context, c call, v any) error {
	a, err := u.send(ctx, c)
	if err != nil {
		return err
	}
	return u.decode(a, c.key, v)
}

// partsOf returns the parts of an unfinished upload.
func (u *upload) partsOf(ctx context.Context, id string) (parts []partXML, err error) {
	c := u.call(http.MethodGet, "uploadId", id)
	for range maxPages {
		var page partsXML
		if err := u.get(ctx, c, &page); err != nil {
			return nil, err
		}
		parts = append(parts, page.Part...)
		if !page.IsTruncated {
			return parts, nil
		}
		c.query.Set("part-number-marker", page.Next)
	}
	return nil, errors.New("too many parts")
}

// same reports whether all parts of an unfinished upload are parts of the object.
func (u *upload) same(ctx context.Context, parts []partXML) bool {
	if len(parts) > len(u.parts) {
		return false
	}
	for _, has := range parts {
		if has.PartNumber < 1 || has.PartNumber > len(u.parts) {
			return false
		}
		p := u.parts[has.PartNumber-1]
		if has.Size != p.size || has.ETag == "" {
			return false
		}
		sum := md5.New() // the ETag of a part, in stores without checksums
		var others []io.Writer
		if has.ChecksumCRC32C == "" {
			others = []io.Writer{sum}
		}
		var err error
		if p.sent, err = u.hash(ctx, p, others...); err != nil {
			return false
		}
		if has.ChecksumCRC32C == "" {
			if strings.Trim(has.ETag, `"`) != hex.EncodeToString(sum.Sum(nil)) {
				return false
			}
			continue
		}
		if p.sum = p.sent; has.ChecksumCRC32C != base64.StdEncoding.EncodeToString(p.sum) {
			return false
		}
	}
	return true
}
