package sources

// A Requirement is a root module's need of one provider: the intersection of
// what all its modules ask for.
type Requirement struct {
	Provider    Provider
	Constraints Constraints
	From        []Origin // every place that asks for it, in order
}

// An Origin is a place in a configuration that asks for a provider.
type Origin struct {
	File       string // as the user would name it, relative to the working directory
	Line       int    // 0 if the file has no lines to speak of, such as a state
	Constraint string // as written; empty if the place states none
}
