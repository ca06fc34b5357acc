package staging

import "time"

// init makes the stage keep downloads of any size, so that tests need no large
// archives.
func init() { worth, slow = 1, time.Minute }
