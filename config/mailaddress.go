package config

import (
	"fmt"
	"net/mail"
	"slices"
	"strings"
)

const (
	maxAddress = 254 // bytes: RFC 5321, 4.5.3.1.3, without the brackets
	// maxOwners is how many addresses an account has at most.
	maxOwners = 5
)

// mailAddress is the bare address of one that may have a name before it.
func mailAddress(text string) (address, problem string) {
	a, err := mail.ParseAddress(text)
	if err != nil {
		return "", "must be a mail address, as in \"ops@example.com\""
	}
	for _, r := range a.Address {
		if r <= ' ' || r > '~' {
			return "", "must be an address of ASCII letters; a domain of others is written as xn--..."
		}
	}
	if _, err := mail.ParseAddress(a.Address); err != nil { // it stood in quotes, which it would need everywhere
		return "", "must be an address whose part before the @ needs no quotes"
	}
	if len(a.Address) > maxAddress {
		return "", fmt.Sprintf("must have at most %d bytes", maxAddress)
	}
	return a.Address, ""
}

// CheckMailAddress is an error where a text is no bare address to which mail can be sent.
func CheckMailAddress(text string) error {
	address, problem := mailAddress(text)
	if problem == "" && address != text {
		problem = "must be an address without a name before it"
	}
	if problem != "" {
		return fmt.Errorf("address %q: it %s", text, problem)
	}
	return nil
}

// ParseOwners checks the addresses of those who are mailed what is about an account: each once, in their order, and
// without the names before them.
func ParseOwners(addresses []string) (owners []string, err error) {
	for _, text := range addresses {
		address, problem := mailAddress(text)
		if problem != "" {
			return nil, fmt.Errorf("address %q: it %s", text, problem)
		}
		if !slices.Contains(owners, address) {
			owners = append(owners, address)
		}
	}
	if len(owners) > maxOwners {
		return nil, fmt.Errorf("%d addresses: an account has at most %d; use a mailing list", len(owners), maxOwners)
	}
	return owners, nil
}

// MaskAddress is an address as it may stand where others read it, or where it stays for good: "a***@example.com".
func MaskAddress(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 1 {
		return hidden
	}
	return address[:1] + "***" + address[at:]
}
