package holds

// status is a script's word on one item. The numbers are those of S in prelude.lua; a test
// compares the two.
type status int

const (
	statusOK status = iota
	statusAgain
	statusAdopt
	statusDamaged
	statusNotFound
	statusSoldOut
	statusAllHeld
	statusBuyerLimit
	statusNotOpen
	statusPaused
	statusClosed
	statusMismatch
	statusTooMany
	statusConfirming
	statusLapsed
	statusCancelled
	statusSold
	statusExtensionLimit
	statusOrderMismatch
	statusStaleToken
	statusInUse
	statusGap
	statusBusy
	statusTooMuch
	statusFormat
	statusNotDue
	statusKnown
	statusBrief
)

const statusUnknown status = -1 // of a result that is none
