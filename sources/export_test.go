package sources

// Slips is slips.
var Slips = slips
