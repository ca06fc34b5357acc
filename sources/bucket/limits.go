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

// Uploads.
const (
	usualPart   = 16 << 20 // bytes; smaller objects are sent in one request
	maxParts    = 10_000
	maxSending  = 4 // parts that are sent at the same time
	maxAttempts = 3 // uploads of one object that other processes may disturb

	// abandoned is the age after which an unfinished upload without parts is
	// removed. A younger one may be that of another process that has just begun.
	abandoned = 24 * time.Hour

	maxUnfinished = 16 // unfinished uploads of an object that are compared with it

	maxPages = 20 // of a list of unfinished uploads or their parts, of 1000 each

	readAtOnce = 64 << 10 // bytes, while the contents are hashed; more than that leaves the caches of the processor

	undoTimeout = 30 * time.Second // for removing what a failed upload left, even if the context is done
)

// Listings.
const (
	maxListed     = 10_000 // objects on a page; stores list 1000
	maxListPages  = 10_000
	maxObjects    = 1_000_000 // in a listing
	maxListing    = 512 << 20 // bytes of all pages
	maxEmptyPages = 100       // in a row; some stores return a few
)

const maxDeletes = 16 // objects that are removed at the same time

// Credentials.
const (
	metadataTimeout = time.Second      // for each of three requests to the metadata service of EC2
	roleTimeout     = 10 * time.Second // for a request for credentials to another service
	processTimeout  = time.Minute      // for the program in credential_process
	maxCredentials  = 256 << 10        // bytes, of a file or an answer
	expiryMargin    = 5 * time.Minute  // credentials are renewed this long before they expire
)

// shortSecret is the length below which a secret isn't looked for in answers, in characters.
const shortSecret = 8
