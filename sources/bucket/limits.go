package bucket

import "time"

const defaultRegion = "us-east-1"

// Sizes, in bytes.
const (
	maxRefusal = 64 << 10
	maxXML     = 8 << 20  // a page of a listing has at most 1000 keys, of 1 KiB, which escapes may triple
	maxObject  = 1 << 46  // in a listing; no store has larger ones
	maxBundle  = 16 << 20 // of a file with certificate authorities
)

// Writes.
const (
	usualPart  = 16 << 20 // bytes; smaller objects are sent in one request
	smallBody  = 1 << 20  // bytes; larger ones wait for one of a few slots, because they are in memory
	maxSending = 4        // large bodies that are sent at the same time
	readAtOnce = 64 << 10 // bytes, while contents are hashed; more than that leaves the caches of the processor
	maxDeletes = 16       // objects that are removed at the same time
)

// Listings.
const (
	maxTags      = 50_000 // on a page; stores list 1000 objects, with about 25 tags each
	maxListPages = 10_000
	maxObjects   = 1_000_000 // in a listing
	maxListing   = 512 << 20 // bytes of all names
)

// Credentials.
const (
	metadataTimeout = time.Second      // for each of three requests to the metadata service of EC2
	roleTimeout     = 10 * time.Second // for a request for credentials to another service
	processTimeout  = time.Minute      // for the program in credential_process
	maxCredentials  = 256 << 10        // bytes, of a file or an answer
	expiryMargin    = 5 * time.Minute  // credentials are renewed this long before they expire
	shortSecret     = 8                // characters; a shorter secret isn't looked for in answers
)
