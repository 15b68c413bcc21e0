package gitcommit

import (
	"container/list"

	"github.com/hived/hived/protocol"
)

// objectCache keeps the most recently used objects, up to most bytes.
type objectCache struct {
	most, bytes int
	order       *list.List // of *cached, the newest first
	byID        map[protocol.Blob]*list.Element
}

type cached struct {
	id   protocol.Blob
	kind kind
	data []byte
}

func newObjectCache(most int) *objectCache {
	return &objectCache{most: most, order: list.New(), byID: make(map[protocol.Blob]*list.Element)}
}

const cachedOverhead = 256 // bytes that an object costs beside its data

func (c *objectCache) get(id protocol.Blob) (kind, []byte, bool) {
	e, ok := c.byID[id]
	if !ok {
		return 0, nil, false
	}
	c.order.MoveToFront(e)
	o := e.Value.(*cached)
	return o.kind, o.data, true
}

// add keeps an object that is not in the cache. One that would push out half of
// the others is not kept at all.
func (c *objectCache) add(id protocol.Blob, k kind, data []byte) {
	if len(data) > c.most/2 {
		return
	}
	c.byID[id] = c.order.PushFront(&cached{id, k, data})
	for c.bytes += len(data) + cachedOverhead; c.bytes > c.most; {
		oldest := c.order.Remove(c.order.Back()).(*cached)
		delete(c.byID, oldest.id)
		c.bytes -= len(oldest.data) + cachedOverhead
	}
}
