// Package public holds what a gateway on the internet is made of: its configuration, units, package, image and chart.
// Its tests use these very files. It is a module of its own, for what packages and tests are made with is none of the
// product's dependencies.
package public
