package inventory

import (
	"testing"

	"github.com/holdfast-inventory/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }
