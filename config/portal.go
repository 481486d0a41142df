package config

// Portal says how people sign in to the pages of the gateway.
type Portal struct {
	// URL is where browsers find the portal's host, without a path; "": nobody has said.
	URL  string
	OIDC []OIDC // in file order
}

// OIDC is an issuer of OpenID Connect by which people sign in. It holds a secret: it prints without it.
type OIDC struct {
	Name         string
	Issuer       string
	ClientID     string
	ClientSecret string // "": of a public client
	Scopes       []string
	GroupsClaim  string
	Operators    map[string]string // what members of a group are, by the group
	CA           string            // PEM of whose certificates are trusted, "" for those that the system trusts
}

// Digest tells an issuer from one that is asked in another way.
func (o OIDC) Digest() string { return digestText(o.Name, o.Issuer, o.CA) }
