package load

import (
	"sync"
	"time"

	"github.com/holdfast-inventory/holdfast/cmd/launch/history"
)

// task is a call that is to be made later.
type task struct {
	at      time.Duration
	kind    history.Kind
	attempt uint8
	buyer   int32
	// resend is set for a call that a server has not seen: it is sent again as it is, under its tag.
	resend bool
	tag    uint64
}

// later keeps tasks by when they are due. Answers add to it, and the one who sends takes from it.
type later struct {
	mu    sync.Mutex
	tasks []task // a heap, the earliest first
}

func (l *later) add(t task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, t)
	for i := len(l.tasks) - 1; i > 0; {
		parent := (i - 1) / 2
		if l.tasks[parent].at <= l.tasks[i].at {
			break
		}
		l.tasks[parent], l.tasks[i] = l.tasks[i], l.tasks[parent]
		i = parent
	}
}

// due takes the earliest task if it is due. Otherwise next is when there will be one.
func (l *later) due(now time.Duration) (t task, ok bool, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tasks) == 0 {
		return task{}, false, never
	}
	if l.tasks[0].at > now {
		return task{}, false, l.tasks[0].at
	}
	t = l.tasks[0]
	last := len(l.tasks) - 1
	l.tasks[0] = l.tasks[last]
	l.tasks = l.tasks[:last]
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < last && l.tasks[child].at < l.tasks[least].at {
				least = child
			}
		}
		if least == i {
			return t, true, 0
		}
		l.tasks[i], l.tasks[least] = l.tasks[least], l.tasks[i]
		i = least
	}
}

func (l *later) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tasks)
}
