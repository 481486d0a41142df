package verify

import "net/http"

func profileChecks() []*Check {
	var checks []*Check
	for _, s := range shapes {
		for _, value := range []string{"cheap", "budget,max", "auto", ""} {
			ids := "PROF-18"
			if value == "" {
				ids = "PROF-19"
			}
			checks = append(checks, check(ids+" PROF-20", "x-service-profile: "+value+" on "+s.Name, func(t *T) {
				c := call{Path: s.Path, Body: t.body(s), Header: http.Header{"X-Service-Profile": {value}}}
				t.refused(s, t.do(c), 400, invalid)
			}))
		}
		checks = append(checks, check("PROF-19", "no x-service-profile on "+s.Name, func(t *T) { t.visit(placeOf(s.Path)) }))
	}
	return checks
}
