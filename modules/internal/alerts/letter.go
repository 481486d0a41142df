package alerts

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/fareway/fareway/config"
)

// Letter is a mail to one person, of text. It has a secret in it, which is why it isn't kept until it is delivered.
type Letter struct {
	To            string
	Subject, Text string
}

// maxLetters is how many are mailed at a time.
const maxLetters = 16

var errManyLetters = errors.New("too many mails are under way")

// SendLetter mails a letter by m, at once and once. The error has neither the letter's text nor a password in it.
func (s *Service) SendLetter(ctx context.Context, m *config.Mail, l Letter) error {
	select {
	case s.letters <- struct{}{}:
		defer func() { <-s.letters }()
	default:
		return errManyLetters
	}
	var random [15]byte
	_, _ = rand.Read(random[:]) // it never fails
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	by := mailer{m}
	text, err := by.compose(l.Subject, l.Text, by.messageID([]*Message{{ID: idOf(random[:])}}), s.o.Now(), l.To)
	if err != nil {
		return errors.New(plain(err.Error(), maxError))
	}
	client, err := by.client(ctx)
	if err != nil {
		return errors.New(plain(err.Error(), maxError))
	}
	if err := client.DialAndSendWithContext(ctx, text); err != nil {
		return errors.New(by.failed(ctx, err).Error)
	}
	return nil
}
