package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// sealedHead begins a file that age has encrypted.
const sealedHead = "age-encryption.org/v1"

// ParseRecipients reads whom a backup is encrypted to: public keys of age, or files with one a line.
func ParseRecipients(texts []string) (all []age.Recipient, err error) {
	for _, text := range texts {
		if strings.HasPrefix(text, "AGE-SECRET-KEY-") {
			return nil, errors.New("this is a secret key, which must not be on a command line: take its public key, " +
				"which begins with age1 and which `age-keygen -y FILE` prints")
		}
		source := io.Reader(strings.NewReader(text))
		if !strings.HasPrefix(text, "age1") {
			content, err := os.ReadFile(text)
			if err != nil {
				return nil, fmt.Errorf("%q is no public key of age (age1...), and as a file with some: %w", text, err)
			}
			source = bytes.NewReader(content)
		}
		found, err := age.ParseRecipients(source)
		if err != nil {
			return nil, fmt.Errorf("reading the public key of age %q: %w", text, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Seal encrypts what is written to its result, which has to be closed.
func Seal(w io.Writer, to []age.Recipient) (io.WriteCloser, error) {
	sealed, err := age.Encrypt(w, to...)
	if err != nil {
		return nil, fmt.Errorf("encrypting the backup: %w", err)
	}
	return sealed, nil
}

// ErrSealed: a backup is encrypted, and nothing that opens it was named.
var ErrSealed = errors.New("the backup is encrypted")

// Unseal returns a backup as it was before it was encrypted, or as it is where it was not. It is opened with the secret
// keys in a file; "" for none.
func Unseal(r io.Reader, identityFile string) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	head, _ := buffered.Peek(len(armor.Header)) // whoever reads on gets the error
	text := io.Reader(buffered)
	switch {
	case bytes.HasPrefix(head, []byte(armor.Header)):
		text = armor.NewReader(buffered)
	case !bytes.HasPrefix(head, []byte(sealedHead)):
		return buffered, nil
	}
	if identityFile == "" {
		return nil, ErrSealed
	}
	content, err := os.ReadFile(identityFile)
	if err != nil {
		return nil, fmt.Errorf("reading the secret key of age: %w", err)
	}
	keys, err := age.ParseIdentities(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("reading the secret key of age in %s: it has none that begins with AGE-SECRET-KEY-",
			identityFile)
	}
	opened, err := age.Decrypt(text, keys...)
	if err != nil {
		return nil, fmt.Errorf("decrypting the backup: %w", err)
	}
	return opened, nil
}
