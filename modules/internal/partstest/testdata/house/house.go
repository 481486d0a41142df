// Package house is made of parts that do not all keep to themselves.
package house

type ground struct{ rooms int }

type value struct{ n int }

type cellar struct {
	*ground
	wine int
}

type hall struct {
	*ground
	cellar *cellar
	guests int
	kin    *attic
}

type attic struct {
	*ground
	dust int
}

type house struct {
	ground
	cellar cellar
	hall   hall
	attic  attic
	open   bool
}

func newCellar() cellar { return cellar{wine: 1} }

func (c *cellar) drink(v *value) {
	c.wine -= c.rooms
	v.n++
	v.n = c.wine
}

func (h *hall) receive() { h.guests += h.cellar.wine }

func (a *attic) sweep(v *value) { a.dust, v.n = 0, a.dust }

func (h *house) build(v *value) {
	v.n++
	h.open = h.hall.guests > 0
	h.attic = attic{dust: 1}
	h.hall.cellar = &h.cellar
}
