// Package bundle makes a file of what somebody needs who helps with a gateway, and nothing that is secret: of JSON the
// strings whose names are on a list (fields), of other text what no pattern takes for a secret, and never what is known
// to be one. It writes what it is given; what that is, is the command's matter (`gateway support-bundle`).
package bundle
