package trust

// Work returns the cost of the signatures in a key block, and that of one signature with all its keys.
func Work(armored string) (own, each int, err error) {
	left := maxWork
	_, checked, err := readKeys(armored, false, &left)
	return checked.own, checked.each, err
}

// MaxWork is the budget.
const MaxWork = int(maxWork)
