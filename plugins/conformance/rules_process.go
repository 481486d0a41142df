package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fareway/fareway/plugins/internal/proto"
)

func byHand(_ context.Context, s *suite) error {
	p, err := run(s.o.Command, nil, s.o.Env...)
	if err != nil {
		return err
	}
	defer p.kill()
	select {
	case <-p.exited:
	case <-time.After(s.o.ending):
		return fmt.Errorf("it goes on for longer than %s", s.o.ending)
	}
	if p.cmd.ProcessState.Success() {
		return errors.New("it exits with status 0")
	}
	if strings.TrimSpace(p.stdout.String()+p.stderr.String()) == "" {
		return errors.New("it says nothing")
	}
	return nil
}

func handshake(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		_, err := p.Describe(ctx, &proto.DescribeRequest{})
		if code := status.Code(err); code == codes.Unavailable {
			return fmt.Errorf("connecting to its socket: %w", err)
		}
		return nil // what it answers is the rule after this one
	})
}

func versions(ctx context.Context, s *suite) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	p, err := s.launch(ctx, "PLUGIN_PROTOCOL_VERSIONS=3,1,2")
	if err != nil {
		return err
	}
	return p.stop()
}

func mutualTLS(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		stranger, err := newIdentity()
		if err != nil {
			return err
		}
		for who, id := range map[string]*identity{"no certificate": nil, "another certificate": stranger} {
			conn, err := p.offer.dial(id)
			if err != nil {
				return fmt.Errorf("connecting: %w", err)
			}
			_, err = proto.NewProviderClient(conn).Describe(ctx, &proto.DescribeRequest{})
			conn.Close()
			if err == nil {
				return fmt.Errorf("it answers a caller with %s", who)
			}
		}
		if _, err := p.about(ctx); err != nil {
			return fmt.Errorf("it no longer answers the gateway after a stranger's call: %w", err)
		}
		return nil
	})
}

func healthService(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		answer, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx,
			&grpc_health_v1.HealthCheckRequest{Service: "plugin"})
		if err != nil {
			return err
		}
		if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			return fmt.Errorf("it is %s", answer.GetStatus())
		}
		return nil
	})
}

// moment is how long the end that a signal brings may take to show, in a program that ends by its own handler.
const moment = 500 * time.Millisecond

func signals(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			if err := p.process.cmd.Process.Signal(sig); err != nil {
				return fmt.Errorf("sending it %s: %w", name(sig), err)
			}
			if p.process.endsWithin(moment) {
				return fmt.Errorf("%s ended it (%s)", name(sig), p.process.cmd.ProcessState)
			}
			_, err := p.about(ctx)
			switch {
			case err == nil:
			case p.process.endsWithin(moment): // it took longer, on a busy machine
				return fmt.Errorf("%s ended it (%s)", name(sig), p.process.cmd.ProcessState)
			default:
				return fmt.Errorf("after %s it no longer answers: %w", name(sig), err)
			}
		}
		return nil
	})
}

func name(sig syscall.Signal) string {
	return map[syscall.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT"}[sig]
}

func shutdown(ctx context.Context, s *suite) error {
	return s.with(ctx, func(ctx context.Context, p *peer) error {
		err := p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", new(emptypb.Empty), new(emptypb.Empty))
		// It may be gone before its answer is.
		if code := status.Code(err); code != codes.OK && code != codes.Unavailable {
			return err
		}
		select {
		case <-p.process.exited:
			return nil
		case <-time.After(s.o.ending):
			return fmt.Errorf("it goes on for longer than %s", s.o.ending)
		}
	})
}

// orphan starts the provider below a shell, which dies.
func orphan(ctx context.Context, s *suite) error {
	shell, err := exec.LookPath("sh")
	if err != nil {
		return inapplicable("it takes sh, which is not installed")
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	// The shell reads from a pipe that stays open, and so waits for ever.
	stdin, hold, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer stdin.Close()
	defer hold.Close()
	id, err := newIdentity()
	if err != nil {
		return err
	}
	command := append([]string{shell, "-c", `FAREWAY_HOST_PID=$$ "$@" </dev/null & read forever`, "sh"}, s.o.Command...)
	p, err := s.launched(command, stdin, id)
	if err != nil {
		return err
	}
	defer p.kill()
	if _, err := p.firstLine(ctx); err != nil {
		return err
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("ending its parent: %w", err)
	}
	select {
	case <-p.closed:
		return nil
	case <-time.After(s.o.ending):
		return fmt.Errorf("it goes on for longer than %s", s.o.ending)
	}
}
