package installer

import "github.com/larder-cli/larder/installer/acquire"

type (
	Event             = acquire.Event
	Step              = acquire.Step
	Slots             = acquire.Slots
	Readings          = acquire.Readings
	Memory            = acquire.Memory
	HashMismatchError = acquire.HashMismatchError
	NotSignedError    = acquire.NotSignedError
	RepublishedError  = acquire.RepublishedError
	Publication       = acquire.Publication
	Fetcher           = Installer
	Store             = acquire.Store
)

const (
	Queued    = acquire.Queued
	Querying  = acquire.Querying
	Chosen    = acquire.Chosen
	Fetching  = acquire.Fetching
	Arriving  = acquire.Arriving
	Waiting   = acquire.Waiting
	Verified  = acquire.Verified
	Stored    = acquire.Stored
	Installed = acquire.Installed
	Settled   = acquire.Settled
	Warned    = acquire.Warned
	Failed    = acquire.Failed
)

var (
	NewSlots         = acquire.NewSlots
	IsOther          = acquire.IsOther
	CheckRepublished = acquire.CheckRepublished
)
