package fetch

import "time"

// The defaults for Options and Request.
const (
	defaultTries     = 6 // consecutive, without progress
	defaultTimeout   = 15 * time.Second
	defaultFirstByte = 3 * time.Minute // for servers that fetch the whole archive from elsewhere before they answer
	defaultPerHost   = 48              // concurrent downloads of archives from one host
	defaultRedirects = 10
	defaultLimit     = 1 << 20 // bytes of a document

	// largeAtOnce is how many documents of more than smallDocument bytes are read and decoded at the same time.
	// Decoding takes up to ten times the size of a document.
	largeAtOnce   = 2
	smallDocument = 64 << 10
)

// Sizes, in bytes.
const (
	maxArchive      = 8 << 30             // the largest known archives have a quarter of a gigabyte
	maxUncompressed = 512 << 20           // of an archive that arrives compressed, as archives hardly do
	maxURL          = 16 << 10            // more than the longest URLs of object stores, including signatures
	maxHost         = 253 + len(":65535") // the longest DNS name, and a port
	maxHeader       = 10 << 20            // of a response, in all; Go's default
	maxDrained      = 64 << 10            // how much of an unread body is read to reuse the connection

	largeRequest = 1 << 20 // of the body of a request that has its own connection

	maxWords    = 2000 // how much of a server's message is shown
	maxPreamble = 200  // the start of a body in which an HTML page can be recognized
	maxSaid     = 200  // in characters, of the message in an error answer
	minSecret   = 4    // characters of a secret; shorter texts occur within other words

	// bufferSize is how many bytes of an archive are passed on at a time. A try that yields fewer has made no progress.
	bufferSize = 64 << 10
)

// Tries and the waits between them.
const (
	firstBackoff = time.Second // doubles with each try
	maxBackoff   = 30 * time.Second
	spread       = time.Second // requests that waited for a host are sent at random times within this duration

	// maxWait is the longest wait that Larder accepts from a server, and about the longest that a request waits before
	// it is sent. A server that requests a longer one gets no further requests.
	maxWait = 2 * time.Minute

	// reachTries is the number of tries to reach a host that has never answered, because it is probably not there. It is
	// 1 for a silent host: within one try, the system has repeated its questions.
	reachTries = 2

	// silence is how long no request is sent to such a host after it was silent.
	silence = 30 * time.Second

	// calm is how long after a pause a host gets no additional connections for one archive, and no further event.
	calm = time.Minute

	maxRounds  = 10 // limits the tries for an archive that each make a little progress
	maxStalls  = 2  // consecutive tries for an archive, if the last one has stalled
	maxUseless = 2  // consecutive requests for the rest of an archive that bring nothing, before one for the whole
)

// Limits for slow responses.
const (
	minRate         = 1 << 10     // in bytes a second; a slower response has stalled
	documentWindows = 8           // timeouts that a whole document may take
	pingsPerTimeout = 2           // detects a dead HTTP/2 connection within one timeout
	maxDrain        = time.Second // for the rest of a body that will be discarded

	// dateResolution is the minimum age of a modification date that identifies a version. Two versions cannot share an
	// older date.
	dateResolution = time.Second
)

// Connections.
const (
	reachTime      = defaultTimeout / 2 // for two queries of a name, or four SYN packets; half of longer timeouts
	keepAlive      = 30 * time.Second
	idleTimeout    = 90 * time.Second
	maxIdle        = 256
	maxOpening     = time.Second // how long other requests wait for the first connection to a host
	maxIdlePerHost = 64          // with fewer, a burst of requests to one host would have to reopen most connections
)

// Downloads over several connections.
const (
	trial   = 100 * time.Millisecond // the shortest period over which the speed is measured
	minRest = time.Second / 2        // the remaining download time that justifies more connections

	maxConnections = 16                 // for one archive, and parts in the spool or being downloaded
	leastFree      = maxConnections / 2 // that the host must permit in addition
	maxTurns       = 2                  // large archives that arrive from a host at the same time
	maxTurn        = 20 * time.Second   // how long others wait for that; addresses are valid for at least 30 seconds
	beginning      = 6 << 20            // bytes, of the first request for an archive: most are smaller
	minPart        = 1 << 20            // bytes
	maxPart        = 4 << 20            // bytes
	partTime       = time.Second / 4    // time to download one part; an interruption loses that much
	minPartTime    = 5 * time.Second    // after which the rest of a part is requested again
	maxLatency     = 5 * time.Second    // of a second connection; requests to a slower server cost too much
	partTries      = 3                  // a part that fails this often is left to a single connection
)
