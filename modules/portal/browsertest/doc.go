// Package browsertest drives Chromium through the portal, as people do: each role's journeys, from the first link to a
// charged request that is seen live; every page with axe, in light, dark and narrow, and what all of them weigh; and
// what another site, a thief of links, or whoever names a thing can do to it. The gateway is a real one, a process of
// its own over TLS, with the upstream that all tests share.
//
// Its tests have the tag browser, for they need Chromium and npm's packages: `make browser`. It leaves pictures of all
// pages in .cache/browser, to be looked at.
package browsertest
