package fetch

import "time"

// What holds where Options or a Request say nothing.
const (
	defaultTries     = 6 // in a row that bring nothing
	defaultTimeout   = 15 * time.Second
	defaultFirstByte = 3 * time.Minute // servers that have archives from elsewhere may fetch all of one before they answer
	defaultPerHost   = 16              // archives downloaded from one host at a time
	defaultRedirects = 10
	defaultLimit     = 1 << 20 // bytes of a document
)

// Sizes, in bytes.
const (
	maxArchive = 8 << 30             // the largest archives there are have a quarter of a gigabyte
	maxUndone  = 256 << 20           // of what was compressed for the way only, beyond which the ratio counts
	maxURL     = 16 << 10            // longer than the longest URLs of object stores, signatures included
	maxHost    = 253 + len(":65535") // the longest name in DNS, and a port
	maxHeader  = 10 << 20            // of a response, in all: as much as Go allows by default
	maxDrained = 64 << 10            // of an unread body, to keep the connection

	maxWords    = 2000 // of a server's message that are shown
	maxPreamble = 200  // in which a page in HTML shows what it is
	maxSaid     = 200  // of a message in an answer that is not what was asked for, in characters
	maxQuoted   = 5    // texts from a server that a message quotes, a number of texts

	// bufferSize is how much of an archive is handed on at a time. A try that
	// brings less than this has made no progress.
	bufferSize = 64 << 10

	readFrame        = 1 << 20 // of HTTP/2; twice as fast as the default from a server nearby
	streamBuffer     = 4 << 20
	connectionBuffer = 64 << 20
)

// maxUndoneRatio is how many times as large as it arrives an answer may become.
const maxUndoneRatio = 20

// silences is how often in a row an archive doesn't begin to arrive until it is given up.
const silences = 2

// maxFruitless is how many tries in a row may ask a server for the rest of an archive in vain.
const maxFruitless = 2

// maxDrain is how long the rest of a body is waited for that is only thrown away.
const maxDrain = time.Second

// maxOpening is how long requests wait for the first connection to a host.
const maxOpening = time.Second

// Tries and the time between them.
const (
	firstBackoff = time.Second // doubled with each try
	maxBackoff   = 30 * time.Second
	maxDoublings = 10
	spread       = time.Second // over which requests that waited for a host are spread

	// maxWait is the longest that we wait because a server asks for it. A server
	// that asks for more gets no further requests.
	maxWait = 2 * time.Minute

	// A host that was overloaded or out of reach gets few requests at a time from this machine
	// until it has been well for a while.
	seats    = 4
	calm     = time.Minute
	seatPoll = 50 * time.Millisecond // between two looks for a seat
	maxSeat  = 2 * time.Minute       // after which a request goes on without a seat

	// maxRounds bounds the tries of an archive of which each brings a little.
	maxRounds = 10
)

// How slowly a response may arrive.
const (
	minRate         = 1 << 10 // bytes a second; a slower response has stalled
	documentWindows = 8       // time-outs that all of a document may take
	pingsPerTimeout = 2       // so that a dead HTTP/2 connection is found within one time-out

	// dateResolution is how far back a date of modification must be for no two
	// versions of a file to have the same date.
	dateResolution = time.Second
)

// Connections that are kept for further requests.
const (
	keepAlive      = 30 * time.Second
	idleTimeout    = 90 * time.Second
	maxIdle        = 256
	maxIdlePerHost = 64 // with fewer, a burst of requests to one host would open most connections again
)

// Downloads over several connections.
const (
	trial   = 200 * time.Millisecond // over which the speed is measured
	minGain = 1.25                   // in speed, for which connections are added
	minRest = time.Second            // of download time, for which connections are added

	maxConnections = 16                     // for one archive
	maxAhead       = maxConnections * 5 / 4 // parts in the spool or on their way
	minPart        = 1 << 20                // bytes
	maxPart        = 4 << 20                // bytes
	partTime       = time.Second / 4        // to download one part, which is what an interruption loses
	maxAnswer      = 5 * time.Second        // to begin to answer, beyond which further requests cost too much
	maxBehind      = 64 << 20               // bytes that the first connection may be behind the others, to go on if they fail
	partTries      = 3                      // after which one connection downloads the rest

	patience  = 2 * time.Second    // between two checks of the connection that all others wait for
	trickle   = 4 * maxConnections // a connection has stalled if it brings less than this fraction of the most
	forgiving = 2                  // by which the most is divided then, as the network may have become slower
)

// widths are how many connections are tried, one after the other.
var widths = [...]int{1, 6, maxConnections}
