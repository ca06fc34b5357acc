package publish

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
)

// Limits on memory.
const (
	maxDocuments = 4 << 20  // bytes of all documents of a provider
	maxPlatforms = 200      // of a version
	maxListed    = 50_000   // objects in a directory, or providers in a bucket
	maxNames     = 16 << 20 // bytes of all names in a directory
)

// A directory has the objects in a directory of a bucket, by their names in it.
type directory map[string]bucket.Info

// list returns the objects in a directory, which ends with a slash.
func list(ctx context.Context, in *bucket.Bucket, dir string) (directory, error) {
	found, names := directory{}, 0
	err := in.List(ctx, dir, func(info bucket.Info) error {
		found[strings.TrimPrefix(info.Name, dir)] = info
		if names += len(info.Name); len(found) > maxListed || names > maxNames {
			return tooMany(in, dir)
		}
		return nil
	})
	return found, err
}

// tooMany returns the error for a directory whose list exceeds the limits.
func tooMany(in *bucket.Bucket, dir string) error {
	err := fmt.Errorf("%s/%s: too many objects; at most %d with %d bytes of names are listed",
		in.Location(), strings.TrimSuffix(dir, "/"), maxListed, maxNames)
	return sources.WithHint(err, "move the objects of other programs to another prefix")
}
